import type { ValidationItem } from '@trainyard/protocol';
import type { BlobLocation } from '@trainyard/store';

import type { SampledTokens } from '../../training-data/wire/recorded-choice.ts';
import type { BodySummary, StoredGroups, StoreGroupsOptions, TrajectoryBodyKind } from './trajectory-body.ts';

/** Start options of the body thread. */
export interface BodyThreadOptions {
  /** Target of the writes; the credentials of a bucket are in the environment. */
  readonly blobs: BlobLocation;
}

export type BodyThreadCommand =
  | { kind: 'chunk'; id: number; bytes: Uint8Array }
  /** Open the blobs, if they are not open yet. */
  | { kind: 'open'; id: number }
  | { kind: 'end'; id: number; bodyKind: TrajectoryBodyKind }
  | { kind: 'store'; id: number; options: StoreGroupsOptions; findsRecords: boolean }
  /** Answers `find`. */
  | { kind: 'found'; id: number; records: ReadonlyMap<string, SampledTokens> }
  | { kind: 'find_failed'; id: number; failure: ThreadFailure }
  /** Forget the body in any state. */
  | { kind: 'discard'; id: number };

export type BodyThreadMessage =
  /** The blobs can be used. */
  | { kind: 'opened'; id: number }
  | { kind: 'parsed'; id: number; summary: BodySummary }
  /** Query for records that the body names, while it is stored; one at a time. */
  | { kind: 'find'; id: number; recordIds: readonly string[] }
  | { kind: 'stored'; id: number; stored: StoredGroups }
  | { kind: 'failed'; id: number; failure: ThreadFailure };

/** An error in transit between threads, where classes are lost. */
export interface ThreadFailure {
  /** Its class; `other` means a bug of the thread. */
  origin: 'request' | 'store' | 'other';
  code: string;
  message: string;
  param: string | null;
  items: readonly ValidationItem[] | null;
}
