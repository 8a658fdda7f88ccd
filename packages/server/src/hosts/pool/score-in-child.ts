import { fileURLToPath } from 'node:url';

import type { FixedScores } from '@trainyard/backend';

import { askHost } from '../process/ask-host.ts';

export interface ScoreOptions {
  readonly modelPath: string;
  readonly numThreads: number;
}

/**
 * Scores of fixed tokens by a model file, computed in a child process.
 * @throws {ServerError} `server.host_failed_to_start`, with the reason: a missing or corrupt file
 */
export function scoreInChild(options: ScoreOptions, log: (line: string) => void): Promise<FixedScores> {
  const modulePath = fileURLToPath(new URL('./score-host.ts', import.meta.url));
  return askHost({ name: 'scoring', modulePath, options, file: options.modelPath, log });
}
