import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import {
  createVirtualEnvironment,
  isVirtualEnvironmentCurrent,
  virtualEnvironment,
} from '../../scripts/lib/virtual-environment.mjs';
import { ServerProcess } from '../server-process.mjs';

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

/** Settings of the labs: little memory, adapters at run time. */
const LAB_FLAGS = ['--max-model-len', '4096', '--enable-lora', '--max-loras', '2', '--max-cpu-loras', '4'];

/** A vLLM server in a separate process, on the loopback interface. Its model is `base`. */
export class VllmProcess extends ServerProcess {
  /**
   * @param {{ python: string, modelFolder: string, port: number, logFile: string, resolverFolder?: string,
   * flags?: readonly string[], environment?: Readonly<Record<string, string>> }} options `resolverFolder`: folder in which adapters are looked up by name;
   * `flags` (default: those of the labs), `environment`: of the server
   */
  constructor(options) {
    const { python, modelFolder, port, logFile, resolverFolder, flags = LAB_FLAGS, environment = {} } = options;
    const url = `http://127.0.0.1:${port}`;
    const base = [
      ['--model', modelFolder],
      ['--served-model-name', 'base'],
      ['--host', '127.0.0.1'],
      ['--port', String(port)],
      ['--dtype', numberFormat()],
    ].flat();
    super({
      name: 'vLLM',
      command: python,
      // The command `vllm` needs a package with another name.
      args: ['-m', 'vllm.entrypoints.openai.api_server', ...base, '--enable-prompt-tokens-details', ...flags],
      environment: {
        VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True',
        VLLM_CPU_KVCACHE_SPACE: '2',
        ...(resolverFolder === undefined ? {} : { VLLM_LORA_RESOLVER_CACHE_DIR: resolverFolder }),
        VLLM_NO_USAGE_STATS: '1',
        HF_HUB_OFFLINE: '1',
        // Keeps Python's compiled files in any environment: without them each start takes two minutes more.
        PYTHONDONTWRITEBYTECODE: '',
        ...environment,
      },
      logFile,
      isReady: () => answers(url),
      readyWithinMs: READY_WITHIN_MS,
    });
    this.url = url;
  }
}

/**
 * It reports healthy before its first computation, and compiles for a minute at the first log-probabilities.
 * @param {string} url
 */
async function answers(url) {
  if (!(await fetch(`${url}/health`)).ok) return false;
  const body = JSON.stringify({ model: 'base', prompt: [11, 12, 13], max_tokens: 2, logprobs: 1, top_k: 1 });
  const headers = { 'content-type': 'application/json' };
  return (await fetch(`${url}/v1/completions`, { method: 'POST', headers, body })).ok;
}
