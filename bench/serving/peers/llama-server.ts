import { mkdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

import { freePort } from '../../../lab/free-port.mjs';
import { ServerProcess } from '../../../lab/server-process.mjs';
import { localPortOf, openClient } from '../server-under-test.ts';
import { buildLlamaServer } from './build-llama-server.ts';
import { llamaModel, type LlamaType, newAdapter, PEERS_FOLDER } from './model-files.ts';
import type { Log, Peer } from './peer.ts';
import { requireFlags } from './server-flags.ts';

const READY_WITHIN_MS = 300_000;
/** Concurrent sequences: the 64 rollouts. More requests wait. */
const SLOTS = 64;
/** Tokens of all slots together. */
const CONTEXT_TOKENS = 65_536;
const TYPES: readonly LlamaType[] = ['bf16', 'q8_0'];

/** The server of llama.cpp. Flag `file=q8_0`: another file than bf16. */
export function llamaServerPeer(name: string, given: readonly string[], log: Log): Peer {
  const file = given.find((flag) => flag.startsWith('file='))?.slice('file='.length) ?? 'bf16';
  const type = TYPES.find((one) => one === file);
  if (type === undefined) throw new Error(`"file=${file}" in "${name}" is none of ${TYPES.join(', ')}`);
  const flags = requireFlags(
    name,
    given.filter((flag) => !flag.startsWith('file=')),
  );
  return {
    name,
    isOurs: false,
    install: async () => {
      await buildLlamaServer(log);
      llamaModel(type, log);
    },
    start: async (numAdapters) => {
      const adapter = numAdapters === 0 ? null : join(await newAdapter('gguf-adapter', log), 'adapter.gguf');
      const port = await freePort();
      const loras = Array.from({ length: numAdapters }, () => adapter).join(',');
      const args = [
        ['--model', llamaModel(type, log)],
        ['--host', '127.0.0.1', '--port', String(port), '--no-ui'],
        // One memory for all slots: a prompt's cells are shared by its completions.
        ['--parallel', String(SLOTS), '--ctx-size', String(CONTEXT_TOKENS), '--kv-unified'],
        ['--threads', String(availableParallelism())],
        adapter === null ? [] : ['--lora', loras, '--lora-init-without-apply'],
        flags.flatMap((flag) => flag.split('=')),
      ].flat();
      mkdirSync(PEERS_FOLDER, { recursive: true });
      const url = `http://127.0.0.1:${port}`;
      const server = new ServerProcess({
        name: 'llama-server',
        command: await buildLlamaServer(log),
        args,
        logFile: join(PEERS_FOLDER, 'llama-server.log'),
        isReady: async () => (await fetch(`${url}/health`)).ok,
        readyWithinMs: READY_WITHIN_MS,
      });
      await server.start();
      return {
        name,
        client: openClient(`${url}/v1`, 'none'),
        model: 'default',
        adapters: Array.from({ length: numAdapters }, (_, id) => `lora:${id}`),
        // Plain samples at temperature 1 like the others: its own defaults cut the distribution off, and give
        // the 20 likeliest tokens with each log-probability.
        fields: ({ logprobs = false }) => ({ top_k: 0, min_p: 0, ...(logprobs && { top_logprobs: 1 }) }),
        localPort: localPortOf(url),
        settings: ['llama-server', ...args].join(' '),
        stop: async () => server.kill(),
      };
    },
  };
}
