import type { JobOrigin } from '@trainyard/store';

import type { RequestError } from '../faults/request-error.ts';

/** State of a base model that a client named and this service fetches from a hub. */
export interface HubBase {
  readonly id: string;
  /** `served`: this process samples from it. The others are those of its newest pull. */
  readonly status: 'served' | 'queued' | 'running' | 'opening' | 'failed' | 'cancelled';
  readonly jobId: string;
  /** Bytes that are here; null before they are known. */
  readonly doneBytes: number | null;
  readonly totalBytes: number | null;
  /** Seconds to the end of the download; null: unknown. */
  readonly remainingSeconds: number | null;
  /** Reason of a failure, for clients; null otherwise. */
  readonly errorMessage: string | null;
}

export interface BaseRequest {
  readonly entityId: string;
  readonly origin: JobOrigin;
}

/** Base models of a hub that clients may name, in addition to those of the settings. */
export interface HubBases {
  /** Bases that clients have named, in order of their newest pull. */
  list(): readonly HubBase[];
  /** Reason why a base is not served now, with its progress; null if no client named it. */
  absence(id: string): RequestError | null;
  /** True from the request for a base until it is served, or its pull ends without success. */
  isComing(id: string): boolean;
  /**
   * Queues the pull of a base that is not served, also after a failure.
   * @throws {RequestError} `request.unknown_model` if clients may not name it here; `request.too_many`
   */
  request(id: string, by: BaseRequest): Promise<void>;
  /** Ends a live pull. @returns false if there is none */
  cancel(id: string): Promise<boolean>;
}
