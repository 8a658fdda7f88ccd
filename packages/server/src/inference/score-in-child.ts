import { fileURLToPath } from 'node:url';

import { SupervisedHost } from '../hosts/supervised-host.ts';

export interface ScoreOptions {
  readonly modelPath: string;
  readonly numThreads: number;
}

export interface ScoredTokens {
  readonly tokenIds: readonly number[];
  /** One a token; null for the first. */
  readonly logprobs: readonly (number | null)[];
}

/**
 * Scores of some fixed tokens by a model file, computed in a child process, which is gone when the promise settles.
 *
 * @throws {ServerError} `server.host_failed_to_start`, with the reason: a missing or corrupt file
 */
export async function scoreInChild(options: ScoreOptions, log: (line: string) => void): Promise<ScoredTokens> {
  let scored: ScoredTokens | null = null;
  const host = new SupervisedHost<{ kind: 'shutdown' }, { kind: 'ready' } & ScoredTokens>({
    name: 'scoring',
    modulePath: fileURLToPath(new URL('./score-host.ts', import.meta.url)),
    options,
    onMessage: (message) => {
      if (message.kind === 'ready') scored = { tokenIds: message.tokenIds, logprobs: message.logprobs };
    },
    onLost: () => undefined,
    log,
  });
  try {
    await host.start();
  } finally {
    await host.close();
  }
  if (scored === null) throw new Error('a scoring ended without its result');
  return scored;
}
