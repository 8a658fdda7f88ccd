/** The budgets charged for bodies that are held while they come in. */
export interface BodyBudgets {
  /** JSON bodies, until their requests have ended: what was parsed takes as much and more. */
  readonly requests: ByteBudget;
  /** Bodies with trajectories, until they are stored. */
  readonly uploads: ByteBudget;
}

/**
 * Bytes that may be held at a time, charged as they come in.
 *
 * One owner may hold as much as it leaves free: half of all when it is alone, a third beside another such owner. So there is always room for
 * one who has nothing yet. Bodies that need more wait, unread; the one that has waited longest goes on in a reserve of its own, up to its
 * end, so that bodies that wait for each other all come to an end.
 */
export class ByteBudget {
  readonly #totalBytes: number;
  readonly #usedBytesOf = new Map<string, number>();
  #usedBytes = 0;
  /** Who may use the reserve. While nobody does, nobody waits. */
  #reserved: ByteHold | null = null;
  /** By owner, each in the order of asking. */
  readonly #waiting = new Map<string, Set<Waiter>>();
  #numAsked = 0;

  /** @param totalBytes beside the reserve, which takes what one body may have */
  constructor(totalBytes: number) {
    this.#totalBytes = totalBytes;
  }

  /** Whether nothing is held and nobody waits. */
  get isWhole(): boolean {
    return this.#usedBytes === 0 && this.#usedBytesOf.size === 0 && this.#reserved === null && this.#waiting.size === 0;
  }

  /** A body of `owner` that has nothing yet. */
  open(owner: string): ByteHold {
    return new ByteHold(this, owner);
  }

  /** True: the bytes are the hold's. False: there is no room for them now. */
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

  /** Resolves with true when the bytes are the hold's, with false when the hold was given back. */
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

/** One body's share of a budget. Its bytes and what it waits for are the budget's business alone. */
export class ByteHold {
  readonly owner: string;
  /** Bytes that count against the owner; those in the reserve do not. */
  takenBytes = 0;
  waiter: Waiter | null = null;
  readonly #budget: ByteBudget;
  #isGivenBack = false;

  constructor(budget: ByteBudget, owner: string) {
    this.#budget = budget;
    this.owner = owner;
  }

  /** Takes more bytes at once. False: they have to be waited for, with `wait`. */
  grow(bytes: number): boolean {
    return !this.#isGivenBack && this.#budget.take(this, bytes);
  }

  /** Resolves with true when the bytes are taken, with false when everything was given back meanwhile. */
  wait(bytes: number): Promise<boolean> {
    return this.#isGivenBack ? Promise.resolve(false) : this.#budget.wait(this, bytes);
  }

  /** Gives everything back, once. */
  giveBack(): void {
    if (this.#isGivenBack) return;
    this.#isGivenBack = true;
    this.#budget.giveBack(this);
  }
}
