import { spawn } from 'node:child_process';
import { createWriteStream, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import {
  createVirtualEnvironment,
  isVirtualEnvironmentCurrent,
  virtualEnvironment,
} from '../../scripts/lib/virtual-environment.mjs';

/** Loading and the first answer take two minutes on two cores, and a quarter of an hour on a busy machine. */
const READY_WITHIN_MS = 2_400_000;

/** Virtual environment with vLLM for CPUs. @param {string} root the repository */
function vllmEnvironment(root) {
  return virtualEnvironment(join(root, '.cache/venv-vllm'), join(root, 'lab/vllm/requirements.txt'));
}

/**
 * Creates it if missing: 5.9 GB.
 * @param {string} root the repository
 * @param {(line: string) => void} log
 * @returns {Promise<string>} its Python
 * @throws {Error} naming the missing part
 */
export async function installVllm(root, log) {
  const environment = vllmEnvironment(root);
  if (!(await isVirtualEnvironmentCurrent(environment))) {
    log(`installing vLLM into ${environment.directory} (5.9 GB, some minutes)`);
    const pipOptions = ['--no-cache', '--no-deps', '--only-binary=:all:'];
    await createVirtualEnvironment(environment, { minor: 12, pipOptions });
  }
  return environment.python;
}

/**
 * Number format: processors without bf16 instructions are a hundred times slower with it. @returns
 * {'bfloat16' | 'float32'}
 */
function numberFormat() {
  try {
    return /avx512_bf16|amx_bf16/.test(readFileSync('/proc/cpuinfo', 'utf8')) ? 'bfloat16' : 'float32';
  } catch {
    return 'float32';
  }
}

/** A vLLM server in a separate process, on the loopback interface. */
export class VllmProcess {
  /**
   * @param {{ python: string, modelFolder: string, port: number, logFile: string, resolverFolder?: string }}
   * options `resolverFolder`: folder in which adapters are looked up by name
   */
  constructor(options) {
    this.options = options;
    this.url = `http://127.0.0.1:${options.port}`;
    /** @type {import('node:child_process').ChildProcess | null} */
    this.child = null;
  }

  /** Resolves once it has answered a request. @throws {Error} if it ends before that */
  async start() {
    const { python, modelFolder, port, logFile, resolverFolder } = this.options;
    const flags = [
      ['--model', modelFolder],
      ['--served-model-name', 'base'],
      ['--host', '127.0.0.1'],
      ['--port', String(port)],
      ['--dtype', numberFormat()],
      ['--max-model-len', '4096'],
      ['--max-loras', '2'],
      ['--max-cpu-loras', '4'],
    ].flat();
    const switches = ['--enable-lora', '--enable-prompt-tokens-details'];
    // The command `vllm` needs a package with another name.
    const args = ['-m', 'vllm.entrypoints.openai.api_server', ...flags, ...switches];
    const child = spawn(python, args, {
      // A separate process group: the engine is a child of the server.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True',
        VLLM_CPU_KVCACHE_SPACE: '2',
        ...(resolverFolder === undefined ? {} : { VLLM_LORA_RESOLVER_CACHE_DIR: resolverFolder }),
        VLLM_NO_USAGE_STATS: '1',
        HF_HUB_OFFLINE: '1',
        // Keeps Python's compiled files in any environment: without them each start takes two minutes more.
        PYTHONDONTWRITEBYTECODE: '',
      },
    });
    this.child = child;
    const log = createWriteStream(logFile, { flags: 'a' });
    child.stdout?.pipe(log, { end: false });
    child.stderr?.pipe(log, { end: false });
    const until = Date.now() + READY_WITHIN_MS;
    while (Date.now() < until) {
      if (child.exitCode !== null) throw new Error(`vLLM ended with exit code ${child.exitCode}. Check ${logFile}`);
      if (await this.#answers()) return;
      await delay(500);
    }
    this.kill();
    throw new Error(`vLLM was not ready within ${READY_WITHIN_MS / 1000} s. Check ${logFile}`);
  }

  /**
   * It reports healthy before its first computation, and compiles for a minute at the first
   * log-probabilities.
   */
  async #answers() {
    try {
      if (!(await fetch(`${this.url}/health`)).ok) return false;
      const body = JSON.stringify({ model: 'base', prompt: [11, 12, 13], max_tokens: 2, logprobs: 1, top_k: 1 });
      const headers = { 'content-type': 'application/json' };
      return (await fetch(`${this.url}/v1/completions`, { method: 'POST', headers, body })).ok;
    } catch {
      return false;
    }
  }

  /** Kills the server and its engine at once. */
  kill() {
    this.#signal('SIGKILL');
  }

  /** Stops computing and answering until {@link resume}. */
  pause() {
    this.#signal('SIGSTOP');
  }

  resume() {
    this.#signal('SIGCONT');
  }

  /** @param {NodeJS.Signals} name */
  #signal(name) {
    if (this.child?.pid === undefined) return;
    try {
      process.kill(-this.child.pid, name);
    } catch {
      // It has ended by itself.
    }
  }
}
