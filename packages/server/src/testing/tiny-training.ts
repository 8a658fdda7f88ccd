import type { FolderBlobs } from '@trainyard/store';

import { ComputeArbiter } from '../hosts/computing/compute-arbiter.ts';
import { EmbeddedTraining } from '../hosts/training/embedded-training.ts';
import type { TrainerHostOptions } from '../hosts/process/messages.ts';

/** A trainer host, not started yet, with one thread and without competition for the cores. */
export function tinyTraining(
  { blobs, workDirectory, log }: { blobs: FolderBlobs; workDirectory: string; log?: (line: string) => void },
  options: Partial<TrainerHostOptions> = {},
): EmbeddedTraining {
  return new EmbeddedTraining({
    host: {
      blobs: blobs.location,
      workDirectory,
      numThreads: 1,
      allowsControlTokens: false,
      isDeterministic: false,
      oneDnnPath: null,
      weights: 'auto',
      remote: null,
      ...options,
    },
    arbiter: new ComputeArbiter(),
    niceness: 0,
    share: 1,
    log: log ?? (() => {}),
  });
}
