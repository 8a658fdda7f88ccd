import type { ComputeGate } from '@trainyard/trainer';

import type { CoreUse } from './compute-arbiter.ts';

/** Host → API process. */
export type CoreMessage = { kind: 'cores-request'; use: CoreUse } | { kind: 'cores-release'; wantsMore: boolean };
/** API process → host: the cores are yours; give them back after this slice. */
export type CoreCommand = { kind: 'cores-granted' } | { kind: 'cores-wanted' };

/** Wants to know whether the host gets on with its slices. */
export interface SliceWatcher {
  sliceBegan(): void;
  sliceEnded(): void;
}

/**
 * A host's side of the compute arbiter: `acquire` before a slice, `release` after it, `giveBack` when there is no more work.
 *
 * The grant is kept between slices until the arbiter asks for it, so an uncontended host sends nothing per slice. One slice at a time.
 */
export class CoreLease implements ComputeGate {
  /** As of the next request. A release that asks for more goes on with what was asked for before. */
  use: CoreUse = 'alone';
  readonly #send: (message: CoreMessage) => void;
  readonly #watcher: SliceWatcher | null;
  #isHeld = false;
  #isInSlice = false;
  #mustYield = false;
  #isRequested = false;
  #waiter: PromiseWithResolvers<void> | null = null;

  /** @param watcher is told of each slice */
  constructor(send: (message: CoreMessage) => void, watcher: SliceWatcher | null = null) {
    this.#send = send;
    this.#watcher = watcher;
  }

  /** @throws the signal's reason when it is aborted before the cores are ours */
  async acquire(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    if (!this.#isHeld) await this.#waitForGrant(signal);
    this.#isInSlice = true;
    this.#watcher?.sliceBegan();
  }

  release(): void {
    this.#isInSlice = false;
    this.#watcher?.sliceEnded();
    // At the end of a slice more work is the rule, so the request is queued again in the same message.
    if (this.#mustYield) this.#drop(true);
  }

  get isWanted(): boolean {
    return this.#mustYield;
  }

  /** No more work for now. */
  giveBack(): void {
    if (this.#isHeld && !this.#isInSlice) this.#drop(false);
  }

  onCommand(command: CoreCommand): void {
    if (command.kind === 'cores-wanted') this.#onWanted();
    else this.#onGranted();
  }

  #onGranted(): void {
    this.#isHeld = true;
    this.#isRequested = false;
    this.#mustYield = false;
    if (this.#waiter === null) {
      // The work this was asked for is gone (a job ended or was cancelled while waiting).
      this.#drop(false);
      return;
    }
    // The waiter goes on in a later microtask; a yield that arrives before it must find the slice begun.
    this.#isInSlice = true;
    this.#waiter.resolve();
    this.#waiter = null;
  }

  #onWanted(): void {
    this.#mustYield = true;
    // Between slices this host is busy with something else (or idle): it asks again when it needs the cores.
    if (this.#isHeld && !this.#isInSlice) this.#drop(false);
  }

  async #waitForGrant(signal: AbortSignal | undefined): Promise<void> {
    const waiter = Promise.withResolvers<void>();
    this.#waiter = waiter;
    if (!this.#isRequested) {
      this.#isRequested = true;
      this.#send({ kind: 'cores-request', use: this.use });
    }
    const onAbort = () => {
      if (this.#waiter === waiter) this.#waiter = null;
      waiter.reject(signal?.reason);
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      await waiter.promise;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  #drop(wantsMore: boolean): void {
    this.#isHeld = false;
    this.#mustYield = false;
    this.#isRequested = wantsMore;
    this.#send({ kind: 'cores-release', wantsMore });
  }
}
