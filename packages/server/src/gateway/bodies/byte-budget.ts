/** Budgets for bodies held while they come in. */
export interface BodyBudgets {
  /** JSON bodies, until their requests have ended: parsed values take at least as much memory. */
  readonly requests: ByteBudget;
  /** Bodies with trajectories, until they are stored. */
  readonly uploads: ByteBudget;
}

/**
 * Maximum bytes held at a time, charged as they come in. An owner may hold as much as it leaves free, so a
 * new owner always finds room. Bodies that need more wait, unread; the longest waiting one continues in a
 * reserve until its end, so that bodies that wait for each other all finish.
 */
export class ByteBudget {
  readonly #totalBytes: number;
  readonly #usedBytesOf = new Map<string, number>();
  #usedBytes = 0;
  /** Holder of the reserve. While there is none, no body waits. */
  #reserved: ByteHold | null = null;
  /** Keyed by owner, in order of requests. */
  readonly #waiting = new Map<string, Set<Waiter>>();
  #numAsked = 0;

  /** @param totalBytes without the reserve, which holds one body of the maximum size */
  constructor(totalBytes: number) {
    this.#totalBytes = totalBytes;
  }

  /** True if nothing is held and no body waits. */
  get isWhole(): boolean {
    return this.#usedBytes === 0 && this.#usedBytesOf.size === 0 && this.#reserved === null && this.#waiting.size === 0;
  }

  open(owner: string): ByteHold {
    return new ByteHold(this, owner);
  }

  /** Charges the bytes to the hold. False if there is no room now. */
  take(hold: ByteHold, bytes: number): boolean {
    if (this.#reserved === hold) return true;
    const owned = this.#usedBytesOf.get(hold.owner) ?? 0;
    if (owned + bytes <= this.#totalBytes - this.#usedBytes - bytes) {
      this.#usedBytes += bytes;
      this.#usedBytesOf.set(hold.owner, owned + bytes);
      hold.takenBytes += bytes;
      return true;
    }
    if (this.#reserved !== null) return false;
    this.#reserved = hold;
    return true;
  }

  /** Resolves with true once the bytes are charged, with false if the hold was given back. */
  wait(hold: ByteHold, bytes: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const waiter = { hold, bytes, number: (this.#numAsked += 1), resolve };
    const known = this.#waiting.get(hold.owner);
    if (known === undefined) this.#waiting.set(hold.owner, new Set([waiter]));
    else known.add(waiter);
    hold.waiter = waiter;
    return promise;
  }

  giveBack(hold: ByteHold): void {
    const owned = (this.#usedBytesOf.get(hold.owner) ?? 0) - hold.takenBytes;
    if (owned > 0) this.#usedBytesOf.set(hold.owner, owned);
    else this.#usedBytesOf.delete(hold.owner);
    this.#usedBytes -= hold.takenBytes;
    hold.takenBytes = 0;
    if (hold.waiter !== null) this.#settle(hold.waiter, false);
    if (this.#reserved === hold) this.#reserved = null;
    const first = this.#reserved === null ? this.#longestWaiting() : undefined;
    if (first !== undefined && this.take(first.hold, first.bytes)) this.#settle(first, true);
    for (const waiters of this.#waiting.values()) {
      for (const waiter of waiters) {
        if (!this.take(waiter.hold, waiter.bytes)) break;
        this.#settle(waiter, true);
      }
    }
  }

  #longestWaiting(): Waiter | undefined {
    const heads = [...this.#waiting.values()].flatMap((waiters) => [...waiters.values().take(1)]);
    return heads.reduce<Waiter | undefined>(
      (first, head) => (first === undefined || head.number < first.number ? head : first),
      undefined,
    );
  }

  #settle(waiter: Waiter, isTaken: boolean): void {
    const { owner } = waiter.hold;
    const waiters = this.#waiting.get(owner);
    waiters?.delete(waiter);
    if (waiters?.size === 0) this.#waiting.delete(owner);
    waiter.hold.waiter = null;
    waiter.resolve(isTaken);
  }
}

interface Waiter {
  readonly hold: ByteHold;
  readonly bytes: number;
  readonly number: number;
  readonly resolve: (isTaken: boolean) => void;
}

/** One body's share of a budget. Only the budget changes its bytes and its waiter. */
export class ByteHold {
  readonly owner: string;
  /** Bytes that count against the owner, without those in the reserve. */
  takenBytes = 0;
  waiter: Waiter | null = null;
  readonly #budget: ByteBudget;
  #isGivenBack = false;

  constructor(budget: ByteBudget, owner: string) {
    this.#budget = budget;
    this.owner = owner;
  }

  /** Takes more bytes at once. False: call `wait` for them. */
  grow(bytes: number): boolean {
    return !this.#isGivenBack && this.#budget.take(this, bytes);
  }

  /** Resolves with true once the bytes are taken, with false if everything was given back meanwhile. */
  wait(bytes: number): Promise<boolean> {
    return this.#isGivenBack ? Promise.resolve(false) : this.#budget.wait(this, bytes);
  }

  giveBack(): void {
    if (this.#isGivenBack) return;
    this.#isGivenBack = true;
    this.#budget.giveBack(this);
  }
}
