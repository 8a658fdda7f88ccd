/**
 * Every block of the README, and the examples that the start prints, run unchanged: in an empty folder, with
 * a service started as in the README.
 */
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

import { pythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import type { OwnService } from '../../scripts/own-service.ts';
import { installedArtReleases } from '../support/art-client.ts';
import { blocksOf } from '../support/doc-blocks.ts';
import { runBlock } from '../support/run-block.ts';
import { smallService } from '../support/small-service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const README_PORT = 8420;
const BLOCKS = blocksOf('README.md').filter(({ mark }) => mark !== 'illustration');
const ART_BLOCKS = blocksOf('docs/guide/from-art.md');
/** Blocks whose commands have their own tests: the start below, the demo in `demo.test.ts`. */
const REMOTE = ['npm start\n', 'npm run demo\n'];
const TIMEOUT_MS = 600_000;
const hasNewestArt = (await installedArtReleases()).includes('art-newest');

/** The README's port, or any other if it is taken. */
async function readmePort(): Promise<number> {
  const server = createServer();
  const isFree = await new Promise<boolean>((done) => {
    server.once('error', () => done(false));
    server.listen(README_PORT, '127.0.0.1', () => done(true));
  });
  await new Promise((done) => (isFree ? server.close(done) : done(null)));
  return isFree ? README_PORT : 0;
}

describe('the README', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'trainyard-readme-'));
  let service: OwnService;
  let printed = '';
  beforeAll(async () => {
    // A data folder with a blank in its path, as users have.
    const dataDirectory = join(scratch, 'my clone', '.trainyard');
    service = await smallService({
      dataDirectory,
      environment: { TRAINYARD_PORT: String(await readmePort()), TRAINYARD_API_KEY: '' },
    });
    await vi.waitUntil(() => service.output().includes('node hello.mjs'), { timeout: 60_000 });
    printed = service.output();
  }, TIMEOUT_MS);
  afterAll(async () => {
    await service?.close();
    rmSync(scratch, { recursive: true, force: true });
  });

  /** Runs a text in a shell, by default in an empty folder. */
  async function run(text: string, options: { cwd?: string; env?: Record<string, string> } = {}) {
    const cwd = options.cwd ?? mkdtempSync(join(scratch, 'empty-'));
    const block = { language: 'sh', mark: '', text, line: 0 };
    const { code, output, errors } = await runBlock(block, { cwd, env: options.env ?? {}, edit: atPort });
    expect({ text, code, errors: code === 0 ? '' : errors + output }).toEqual({ text, code: 0, errors: '' });
    return { output, cwd };
  }

  /** Verbatim, except if the README's port is taken: then with the port of this service. */
  function atPort(text: string): string {
    return text.replaceAll(`127.0.0.1:${README_PORT}`, new URL(service.url).host);
  }

  const key = () => readFileSync(join(service.dataDirectory, 'admin-key'), 'utf8').trim();
  const withKey = () => ({ TRAINYARD_API_KEY: key() });
  const block = (part: string, blocks = BLOCKS) => blocks.find(({ text }) => text.includes(part))!.text;

  it('runs every one of its blocks', () => {
    const known = [/^export TRAINYARD_API_KEY=/, /^curl /, /^npm install openai/, /task\.mjs/];
    const blocks = BLOCKS.filter((block) => block.language !== '');
    const unknown = blocks.filter(({ text }) => !REMOTE.includes(text) && !known.some((sign) => sign.test(text)));
    expect(unknown.map(({ text }) => text)).toEqual([]);
    expect(blocks.every(({ language }) => language === 'sh')).toBe(true);
  });

  it('reads the key from the folder of the clone', async () => {
    const { output } = await run(`${block('export TRAINYARD_API_KEY')}printf %s "$TRAINYARD_API_KEY"`, {
      cwd: dirname(service.dataDirectory),
    });
    expect(output).toBe(key());
  });

  it('chats with curl, streamed and to its end', async () => {
    const { output } = await run(block('curl -N'), { env: withKey() });
    const events = output.split('\n').filter((line) => line.startsWith('data: {'));
    expect(events.length).toBeGreaterThan(2);
    expect(events.length).toBeLessThanOrEqual(64 + 2);
    expect(output.trimEnd().endsWith('data: [DONE]')).toBe(true);
  });

  it(
    'chats with openai for Node',
    async () => {
      const { output } = await run(block('npm install openai'), { env: withKey() });
      expect(output.trim().split('\n').at(-1)!.length).toBeGreaterThan(5);
    },
    TIMEOUT_MS,
  );

  it(
    'trains a task of its own from the folder of the clone',
    async () => {
      const cwd = mkdtempSync(join(scratch, 'clone-'));
      symlinkSync(join(ROOT, 'node_modules'), join(cwd, 'node_modules'));
      const env = { ...withKey(), TRAINYARD_BASE_URL: service.url };
      const { output } = await run(block('task.mjs'), { cwd, env });
      expect(output).toMatch(/^step 1 \[[\s\S]*^step 3 \[/m);
    },
    TIMEOUT_MS,
  );

  it.skipIf(!hasNewestArt)(
    'takes first steps with ART',
    async () => {
      // Its environment already exists: installing it again reports "already satisfied".
      const bin = mkdtempSync(join(scratch, 'bin-'));
      const environment = pythonEnvironment(ROOT, 'art-newest').directory;
      writeFileSync(join(bin, 'python3'), `#!/bin/sh\n[ "$*" = "-m venv art" ] && exec ln -s '${environment}' art\n`);
      chmodSync(join(bin, 'python3'), 0o755);
      const env = {
        ...withKey(),
        PATH: `${bin}:${process.env['PATH']}`,
        LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      };
      const { output } = await run(block('first_steps.py', ART_BLOCKS), { env });
      expect(output).toMatch(/^step 1 is served as .*local\/demo\/first/m);
    },
    TIMEOUT_MS,
  );

  it(
    'equals the printed start, with the same snippets, from a folder with a blank in its path',
    async () => {
      const [, shell = ''] = /In another terminal:\n\n([\s\S]*)/.exec(printed) ?? [];
      expect(shell).toContain("my clone/.trainyard/admin-key')");
      const { output, cwd } = await run(shell);
      expect(output).toContain('data: [DONE]');
      expect(readdirSync(cwd)).toContain('hello.mjs');
      for (const sign of ['curl -N', 'node hello.mjs']) {
        const own = shell.slice(shell.indexOf(sign.startsWith('curl') ? 'curl -N' : 'npm install openai')).trim();
        expect(own.startsWith(atPort(block(sign)).trim())).toBe(true);
      }
    },
    TIMEOUT_MS,
  );
});
