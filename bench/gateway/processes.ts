import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import { freePort } from '../../lab/free-port.mjs';
import {
  createVirtualEnvironment,
  isVirtualEnvironmentCurrent,
  virtualEnvironment,
} from '../../scripts/lib/virtual-environment.mjs';
import type { Target } from './requests.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const LITELLM_KEY = 'sk-bench';
/** It imports some hundred modules. */
const LITELLM_START_MS = 300_000;

export interface Started extends Target {
  stop(): Promise<void>;
}

/**
 * Starts a module of this checkout or another, which prints `URL` and `KEY`, and ends with its standard
 * input.
 */
export async function startModule(
  name: string,
  path: string,
  { root = ROOT, args = [] }: { root?: string; args?: readonly string[] } = {},
): Promise<Started> {
  const child = spawn(
    process.execPath,
    ['--conditions=@trainyard/source', ...profiling(name), join(root, path), ...args],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  const exited = once(child, 'exit');
  let output = '';
  for await (const part of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    output += part as string;
    const [, url, key] = /^URL (\S+)\nKEY (\S+)$/m.exec(output) ?? [];
    if (url === undefined || key === undefined) continue;
    const stop = async () => {
      child.stdin.end();
      await exited;
    };
    return { name, url, key, pids: [child.pid!], stop };
  }
  throw new Error(`${name} ended before it was ready:\n${output}`);
}

/** With `BENCH_PROFILE=<folder>` each module writes a profile of its processor time there. */
function profiling(name: string): string[] {
  const folder = process.env['BENCH_PROFILE'];
  return folder === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${join(folder, name)}`];
}

/** LiteLLM's proxy with a stub, with a key and nothing else: no database, callbacks or request log. */
export async function startLitellm(stub: Target, numWorkers: number): Promise<Started> {
  const environment = virtualEnvironment(
    join(ROOT, '.cache/venv-litellm'),
    join(import.meta.dirname, 'requirements-litellm.txt'),
  );
  if (!(await isVirtualEnvironmentCurrent(environment))) {
    console.error(`installing LiteLLM's proxy into ${environment.directory} (600 MB, some minutes)`);
    await createVirtualEnvironment(environment, { pipOptions: ['--no-deps'] });
  }
  const folder = mkdtempSync(join(tmpdir(), 'trainyard-litellm-'));
  const config = join(folder, 'config.yaml');
  // JSON is valid YAML.
  writeFileSync(
    config,
    JSON.stringify({
      model_list: [
        { model_name: 'instant', litellm_params: { model: 'openai/instant', api_base: stub.url, api_key: 'none' } },
      ],
      litellm_settings: { telemetry: false, set_verbose: false, num_retries: 0, request_timeout: 60 },
      general_settings: { master_key: LITELLM_KEY },
    }),
  );
  const port = await freePort();
  const child = spawn(
    join(dirname(environment.python), 'litellm'),
    ['--config', config, '--host', '127.0.0.1', '--port', String(port), '--num_workers', String(numWorkers)],
    {
      env: { ...process.env, LITELLM_LOG: 'ERROR', LITELLM_LOCAL_MODEL_COST_MAP: 'True', NO_DOCS: 'True' },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  const exited = once(child, 'exit');
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (part: string) => (output = (output + part).slice(-5_000)));
  const stop = async () => {
    if (child.exitCode === null) child.kill('SIGTERM');
    await exited;
    rmSync(folder, { recursive: true, force: true });
  };
  const url = `http://127.0.0.1:${port}`;
  const deadline = performance.now() + LITELLM_START_MS;
  while (!(await answers(`${url}/health/liveliness`))) {
    if (child.exitCode === null && performance.now() < deadline) {
      await delay(200);
      continue;
    }
    await stop();
    throw new Error(`LiteLLM's proxy did not start:\n${output}`);
  }
  return { name: 'litellm', url: `${url}/v1`, key: LITELLM_KEY, pids: [child.pid!], stop };
}

/** Runs until its parent has ended, for any reason. */
const COMPUTE_WHILE_WANTED = 'const { ppid } = process; while (process.ppid === ppid) for (let i = 0; i < 1e7; i++);';

/**
 * One process per core that computes in the scheduler's idle class. A virtual machine gives an idle core
 * back, which delays the next process there and empties its caches.
 * @returns ends them
 * @throws {Error} without `chrt`
 */
export async function keepAwake(): Promise<() => void> {
  const children = cpus().map(() =>
    spawn('chrt', ['--idle', '0', process.execPath, '-e', COMPUTE_WHILE_WANTED], { stdio: 'ignore' }),
  );
  await Promise.all(children.map((child) => once(child, 'spawn')));
  return () => {
    for (const child of children) child.kill('SIGKILL');
  };
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok;
  } catch {
    return false;
  }
}
