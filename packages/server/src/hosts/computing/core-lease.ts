import type { ComputeGate } from '@trainyard/trainer';

import type { CoreUse } from './compute-arbiter.ts';

/** Host → API process. */
export type CoreMessage = { kind: 'cores-request'; use: CoreUse } | { kind: 'cores-release'; wantsMore: boolean };
/** API process → host: granted; or: yield after this slice. */
export type CoreCommand = { kind: 'cores-granted' } | { kind: 'cores-wanted' };

/** Observer of a host's progress through its slices. */
export interface SliceWatcher {
  sliceBegan(): void;
  sliceEnded(): void;
}

/**
 * A host's client of the compute arbiter: `acquire` before a slice, `release` after it, `giveBack` when there
 * is no more work.
 * It keeps the grant between slices until the arbiter asks for it, so without contention there is no message
 * per slice. One slice at a time.
 */
export class CoreLease implements ComputeGate {
  /** Used from the next request on. A release that asks for more keeps the previous use. */
  use: CoreUse = 'alone';
  readonly #send: (message: CoreMessage) => void;
  readonly #watcher: SliceWatcher | null;
  #isHeld = false;
  #isInSlice = false;
  #mustYield = false;
  #isRequested = false;
  #waiter: PromiseWithResolvers<void> | null = null;

  /** @param watcher is called at each slice */
  constructor(send: (message: CoreMessage) => void, watcher: SliceWatcher | null = null) {
    this.#send = send;
    this.#watcher = watcher;
  }

  /** @throws the signal's reason if it aborts before the grant */
  async acquire(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    if (!this.#isHeld) await this.#waitForGrant(signal);
    this.#isInSlice = true;
    this.#watcher?.sliceBegan();
  }

  release(): void {
    this.#isInSlice = false;
    this.#watcher?.sliceEnded();
    // More work usually follows a slice, so the same message queues the next request.
    if (this.#mustYield) this.#drop(true);
  }

  get isWanted(): boolean {
    return this.#mustYield;
  }

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
      // The work that requested it is gone (a job ended or was cancelled while waiting).
      this.#drop(false);
      return;
    }
    // The waiter continues in a later microtask. A yield that arrives before must already see the slice as
    // started.
    this.#isInSlice = true;
    this.#waiter.resolve();
    this.#waiter = null;
  }

  #onWanted(): void {
    this.#mustYield = true;
    // Between slices this host is busy with other work or idle: it requests the cores again when it needs
    // them.
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
