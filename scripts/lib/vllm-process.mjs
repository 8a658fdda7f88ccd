import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import { createVirtualEnvironment, isVirtualEnvironmentCurrent, virtualEnvironment } from './virtual-environment.mjs';

/** Loading takes a minute where nothing else computes. */
const READY_WITHIN_MS = 900_000;

/** The virtual environment with vLLM on processors. @param {string} root the repository */
function vllmEnvironment(root) {
  return virtualEnvironment(join(root, '.cache/venv-vllm'), join(root, 'scripts/vllm-requirements.txt'));
}

/**
 * Makes it where it is missing: 5.9 GB.
 * @param {string} root the repository
 * @param {(line: string) => void} log
 * @returns {Promise<string>} its Python
 * @throws {Error} that says what is missing
 */
export async function installVllm(root, log) {
  const environment = vllmEnvironment(root);
  if (!(await isVirtualEnvironmentCurrent(environment))) {
    log(`installing vLLM into ${environment.directory} (5.9 GB, some minutes)`);
    const pipOptions = ['--no-cache-dir', '--no-deps', '--only-binary=:all:', '--no-compile'];
    await createVirtualEnvironment(environment, { minor: 12, pipOptions });
  }
  return environment.python;
}

/** A vLLM server in a process of its own, on the loopback interface. */
export class VllmProcess {
  /** @param {{ python: string, modelFolder: string, port: number, logFile: string }} options */
  constructor(options) {
    this.options = options;
    this.url = `http://127.0.0.1:${options.port}`;
    /** @type {import('node:child_process').ChildProcess | null} */
    this.child = null;
  }

  /** Resolves when it answers. @throws {Error} when it ends before that */
  async start() {
    const { python, modelFolder, port, logFile } = this.options;
    const flags = [
      ['--model', modelFolder],
      ['--served-model-name', 'base'],
      ['--host', '127.0.0.1'],
      ['--port', String(port)],
      ['--dtype', 'bfloat16'],
      ['--max-model-len', '4096'],
      ['--max-loras', '2'],
      ['--max-cpu-loras', '4'],
    ].flat();
    const switches = ['--enable-lora', '--enable-prompt-tokens-details'];
    // The command `vllm` asks for a package of another name than this one has.
    const args = ['-m', 'vllm.entrypoints.openai.api_server', ...flags, ...switches];
    const child = spawn(python, args, {
      // A group of its own: the engine is a child of the server.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True',
        VLLM_CPU_KVCACHE_SPACE: '2',
        VLLM_NO_USAGE_STATS: '1',
        HF_HUB_OFFLINE: '1',
      },
    });
    this.child = child;
    const log = createWriteStream(logFile, { flags: 'a' });
    child.stdout?.pipe(log, { end: false });
    child.stderr?.pipe(log, { end: false });
    const until = Date.now() + READY_WITHIN_MS;
    while (Date.now() < until) {
      if (child.exitCode !== null) throw new Error(`vLLM ended with exit code ${child.exitCode}: see ${logFile}`);
      const answer = await fetch(`${this.url}/health`).catch(() => null);
      if (answer?.ok === true) return;
      await delay(500);
    }
    this.kill();
    throw new Error(`vLLM was not ready within ${READY_WITHIN_MS / 1000} s: see ${logFile}`);
  }

  /** The server and its engine, at once. */
  kill() {
    if (this.child?.pid === undefined) return;
    try {
      process.kill(-this.child.pid, 'SIGKILL');
    } catch {
      // It has ended by itself.
    }
  }
}
