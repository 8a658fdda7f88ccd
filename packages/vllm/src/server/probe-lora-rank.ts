import { randomUUID } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join, posix } from 'node:path';

import type { HttpLine } from '../wire/http-line.ts';
import { ServerFailure } from '../wire/server-failure.ts';

/** Folder for files that only probes of servers read. */
export interface ProbeFolder {
  readonly directory: string;
  /** Path of the folder on the servers. */
  readonly path: string;
}

/** Above the limit of any server. */
const BEYOND_RANK = 1_000_000;
const CONFIG = JSON.stringify({
  peft_type: 'LORA',
  r: BEYOND_RANK,
  lora_alpha: BEYOND_RANK,
  target_modules: ['q_proj'],
  bias: 'none',
  task_type: 'CAUSAL_LM',
});

/**
 * Finds the `--max-lora-rank` of a server, which no route reports: vLLM checks the configuration of an
 * adapter before its weights, and its refusal of a rank that is too large contains the limit.
 *
 * @returns null if the server does not report it, or does not see the folder
 */
export async function readMaxLoraRank(
  line: HttpLine,
  { directory, path }: ProbeFolder,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<number | null> {
  const name = `.rank-probe-${randomUUID()}`;
  const call = (route: string, body: object): Promise<string> =>
    line.text('POST', route, JSON.stringify(body), { timeoutMs, signal });
  try {
    await mkdir(join(directory, name), { recursive: true });
    await writeFile(join(directory, name, 'adapter_config.json'), CONFIG);
    await call('/v1/load_lora_adapter', { lora_name: name, lora_path: posix.join(path, name) });
    // A server that reads adapters later must not keep this one.
    await call('/v1/unload_lora_adapter', { lora_name: name });
    return null;
  } catch (error) {
    signal.throwIfAborted();
    const limit = error instanceof ServerFailure ? /max_lora_rank (\d+)/.exec(error.reason)?.[1] : undefined;
    return limit === undefined ? null : Number(limit);
  } finally {
    await rm(join(directory, name), { recursive: true, force: true });
  }
}
