/**
 * Checks every flag of vLLM and SkyRL in examples/scale-out/compose.yaml and docs/guide/scaling.md with the
 * parsers of the installed releases, without GPUs or containers.
 *
 *   npm run lab -- scale-out    installs vLLM and SkyRL if missing (12 GB in .cache)
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { ensureSkyrl, skyrlEnvironment } from '../skyrl/skyrl-server.mjs';
import { installVllm } from '../vllm/vllm-process.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
const log = (line: string): void => console.log(`check:scale-out: ${line}`);
let numFailed = 0;

const compose = readFileSync(join(ROOT, 'examples/scale-out/compose.yaml'), 'utf8');
const guide = readFileSync(join(ROOT, 'docs/guide/scaling.md'), 'utf8');
const vllmFlags = { python: await installVllm(ROOT, log), script: 'vllm_flags.py' };
await ensureSkyrl(ROOT, log);

const template = /^x-vllm:.*\n(?: .*\n)*/m.exec(compose)![0];
parse('vLLM accepts the flags of the compose file', vllmFlags, [
  ...namesOf(template, /^ {4}(VLLM_\w+):/gm),
  '--',
  ...listOf(template),
]);
const commands = guide.replaceAll('\\\n', ' ').matchAll(/^(.*)\bvllm serve (.*)$/gm);
for (const [, environment, given] of commands) {
  const flags = given!.replaceAll(/&\s*$/g, '').replaceAll('810$gpu', '8100').replaceAll('"$KEY"', 'key').trim();
  parse(`vLLM takes "${flags}" of the guide`, vllmFlags, [
    ...namesOf(environment!, /(VLLM_\w+)=/g),
    '--',
    ...flags.split(/\s+/),
  ]);
}
const others = ['--logprobs-mode=processed_logprobs', '--scheduling-policy=priority', '--max-logprobs=20'];
for (const flag of others) {
  if (!guide.includes(flag.split('=')[0]!)) throw new Error(`the guide no longer has ${flag}`);
  parse(`vLLM takes ${flag}`, vllmFlags, ['--', 'MODEL', flag]);
}
parse('vLLM reads the variables of the guide', vllmFlags, [...namesOf(guide, /\b(VLLM_\w+)\b/g), '--', 'MODEL']);

const service = /^ {2}skyrl:\n(?: {3,}.*\n)*/m.exec(compose)![0];
const command = listOf(service);
const skyrlFlags = { python: skyrlEnvironment(ROOT).python, script: 'skyrl_flags.py' };
parse(
  'SkyRL accepts the flags of the compose file',
  skyrlFlags,
  command.slice(command.indexOf('skyrl.tinker.api') + 1),
);
// Makes sure that the parsers do refuse unknown flags.
parse('vLLM refuses another flag', vllmFlags, ['--', 'MODEL', '--no-such-flag'], false);
parse('SkyRL refuses another flag', skyrlFlags, ['--base-model=m', '--no-such-flag'], false);
parse('SkyRL refuses another backend', skyrlFlags, ['--base-model=m', '--backend=other'], false);

log(numFailed === 0 ? 'all is well' : `${numFailed} checks failed`);
process.exitCode = numFailed === 0 ? 0 : 1;

/** A script of `lab/scale-out`, and the interpreter that has its packages. */
interface Parser {
  readonly python: string;
  readonly script: string;
}

function parse(what: string, parser: Parser, args: readonly string[], isTaken = true): void {
  const { status, stderr } = spawnSync(parser.python, [join(ROOT, 'lab/scale-out', parser.script), ...args], {
    encoding: 'utf8',
  });
  const isOk = (status === 0) === isTaken;
  if (!isOk) numFailed++;
  log(`${isOk ? 'ok  ' : 'FAIL'} ${what}${isOk ? '' : `: ${stderr.trim().split('\n').slice(-3).join(' ')}`}`);
}

/** Entries of `command:`. */
function listOf(part: string): string[] {
  const entries = /^ +command:\n((?: +- .*\n)+)/m.exec(part)![1]!;
  return [...entries.matchAll(/^ +- (.*)$/gm)].map(([, entry]) => entry!);
}

function namesOf(text: string, pattern: RegExp): string[] {
  return [...new Set([...text.matchAll(pattern)].map(([, name]) => name!))];
}
