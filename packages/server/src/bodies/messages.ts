import type { ValidationItem } from '@trainyard/protocol';

import type { BodySummary, StoreGroupsOptions, TrajectoryBodyKind } from './trajectory-body.ts';

/** What the body thread is started with. */
export interface BodyThreadOptions {
  /** Folder of the blobs. */
  readonly blobsFolder: string;
}

export type BodyThreadCommand =
  | { kind: 'chunk'; id: number; bytes: Uint8Array }
  | { kind: 'end'; id: number; bodyKind: TrajectoryBodyKind }
  | { kind: 'store'; id: number; options: StoreGroupsOptions }
  /** Forget the body, whatever is known of it. */
  | { kind: 'discard'; id: number };

export type BodyThreadMessage =
  | { kind: 'parsed'; id: number; summary: BodySummary }
  | { kind: 'stored'; id: number; metrics: Record<string, number> }
  | { kind: 'failed'; id: number; failure: ThreadFailure };

/** An error on its way between threads, where classes are lost. */
export interface ThreadFailure {
  /** Which class it was; anything else is a bug of the thread. */
  origin: 'request' | 'store' | 'other';
  code: string;
  message: string;
  param: string | null;
  items: readonly ValidationItem[] | null;
}
