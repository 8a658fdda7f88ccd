import type { Blobs, Store } from '@trainyard/store';

import type { AdapterImporter, ExportQueue, InferenceBackend, TrainingQueue } from './backends.ts';

/** Everything the HTTP side of the service is made of. */
export interface ServerParts {
  store: Store;
  blobs: Blobs;
  inference: InferenceBackend;
  training: TrainingQueue;
  exports: ExportQueue;
  imports: AdapterImporter;
  /** Milliseconds since the epoch; default `Date.now`. */
  clock?: () => number;
  /** Receives one line for each failure that the client is told nothing about. Default: nothing is written. */
  log?: (line: string) => void;
  limits?: Partial<HttpLimits>;
  /** Reasoning is answered under its older name `reasoning_content` too. Default false. */
  hasReasoningContent?: boolean;
  /** Choices of trained models are kept under an id, for training to go by. Default true. */
  keepsChoiceRecords?: boolean;
  /** Folder whose files `file:` URLs of training data may name. Default null: none. */
  trainingDataDirectory?: string | null;
}

export interface HttpLimits {
  /** Largest body of a chat request, bytes. */
  chatBodyBytes: number;
  /**
   * Largest body of a preview request, bytes. The body is held in memory as one string and parsed at once, so the event loop stands
   * still for about 10 ms a MB; V8 has no strings of 2^29 characters.
   */
  previewBodyBytes: number;
}

export const DEFAULT_HTTP_LIMITS: HttpLimits = { chatBodyBytes: 8_000_000, previewBodyBytes: 512_000_000 };

/** What routes are given: the parts with their defaults. */
export interface RouteParts extends ServerParts {
  clock: () => number;
  log: (line: string) => void;
  limits: HttpLimits;
  hasReasoningContent: boolean;
  keepsChoiceRecords: boolean;
  trainingDataDirectory: string | null;
}
