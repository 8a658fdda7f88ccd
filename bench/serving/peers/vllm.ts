import { mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { DEFAULT_LORA_CONFIG } from '@trainyard/trainer';

import { freePort } from '../../../lab/free-port.mjs';
import { installVllm, VllmProcess } from '../../../lab/vllm/vllm-process.mjs';
import { shownVariables } from '../../settings-environment.ts';
import { localPortOf, openClient } from '../server-under-test.ts';
import { huggingFaceModel, newAdapter, PEERS_FOLDER, ROOT } from './model-files.ts';
import type { Log, Peer } from './peer.ts';
import { requireFlags } from './server-flags.ts';
import { ensureTcmalloc } from './tcmalloc.ts';

/** Longest workload, with room. */
const MAX_MODEL_LEN = 8_192;
/** As vLLM's guide for processors advises it: sequences × length, GB. This holds 180,000 tokens of the default model. */
const KV_CACHE_GB = 4;

/** vLLM on processors, with all cores, compilation, and the libraries that its guide preloads. */
export function vllmPeer(name: string, flags: readonly string[], log: Log): Peer {
  requireFlags(name, flags);
  return {
    name,
    isOurs: false,
    install: async () => {
      await installVllm(ROOT, log);
      await ensureTcmalloc(log);
      await huggingFaceModel(log);
    },
    start: async (numAdapters) => {
      const adapter = numAdapters === 0 ? null : await newAdapter('peft', log);
      const adapters = Array.from({ length: numAdapters }, (_, index) => `a${index}`);
      const modules = adapter === null ? [] : ['--lora-modules', ...adapters.map((id) => `${id}=${adapter}`)];
      const server = await startVllm({ log, flags: [...loraFlags(numAdapters), ...modules, ...flags] });
      const url = `${server.process.url}/v1`;
      return {
        name,
        client: openClient(url, 'none'),
        model: 'base',
        adapters,
        localPort: localPortOf(url),
        settings: server.settings,
        stop: async () => server.process.kill(),
      };
    },
  };
}

/** @param numAdapters in one batch; 0: none, and vLLM compiles its model, which it does not with adapters */
export function loraFlags(numAdapters: number): readonly string[] {
  if (numAdapters === 0) return [];
  return ['--enable-lora', '--max-loras', String(numAdapters), '--max-lora-rank', String(DEFAULT_LORA_CONFIG.rank)];
}

/** Installs missing parts and starts a server with the settings of its guide for processors. */
export async function startVllm(options: {
  readonly log: Log;
  readonly flags: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}): Promise<{ readonly process: VllmProcess; readonly settings: string }> {
  const { log } = options;
  const python = await installVllm(ROOT, log);
  const environment = {
    LD_PRELOAD: [await ensureTcmalloc(log), openMpOf(python)].join(':'),
    VLLM_CPU_OMP_THREADS_BIND: allowedCores(),
    VLLM_CPU_KVCACHE_SPACE: String(KV_CACHE_GB),
    VLLM_CACHE_ROOT: join(PEERS_FOLDER, 'vllm-cache'),
    // Its first step on a busy machine may exceed the default of five minutes.
    VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS: '3600',
    ...options.environment,
  };
  const flags = ['--max-model-len', String(MAX_MODEL_LEN), '--enable-prefix-caching', ...options.flags];
  const modelFolder = await huggingFaceModel(log);
  mkdirSync(PEERS_FOLDER, { recursive: true });
  const logFile = join(PEERS_FOLDER, 'vllm.log');
  const process = new VllmProcess({ python, modelFolder, port: await freePort(), logFile, flags, environment });
  log('starting vLLM (about two minutes, at first more)');
  await process.start();
  return { process, settings: [shownVariables(environment), ...process.options.args].join(' ') };
}

/** Intel's OpenMP from the wheel `intel-openmp`. */
export function openMpOf(python: string): string {
  return join(dirname(dirname(python)), 'lib/libiomp5.so');
}

/** Cores of this process as a list like `0-1`. @throws {Error} on another system than Linux */
function allowedCores(): string {
  const [, list] = /^Cpus_allowed_list:\s+(\S+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  if (list === undefined) throw new Error('/proc/self/status has no Cpus_allowed_list, the cores for vLLM');
  return list;
}
