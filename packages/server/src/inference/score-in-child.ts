import { fileURLToPath } from 'node:url';

import { askHost } from '../hosts/ask-host.ts';

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
 * Scores of some fixed tokens by a model file, computed in a child process.
 *
 * @throws {ServerError} `server.host_failed_to_start`, with the reason: a missing or corrupt file
 */
export function scoreInChild(options: ScoreOptions, log: (line: string) => void): Promise<ScoredTokens> {
  const modulePath = fileURLToPath(new URL('./score-host.ts', import.meta.url));
  return askHost({ name: 'scoring', modulePath, options, log });
}
