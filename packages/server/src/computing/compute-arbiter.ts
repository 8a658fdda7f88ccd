/**
 * Decides which host may compute on the cores right now.
 *
 * ggml and ONNX Runtime both spin at barriers: with two thread pools on the same cores a 39 ms decode step was seen to take 600 ms. So in the
 * embedded setting at most one host computes at a time, one slice (an engine step or a layer run, 10–100 ms) after the other.
 *
 * A host keeps its grant from slice to slice until it is told to yield, so an uncontended host pays no message per slice. While both have work
 * the next slice goes to the one that used the least time in proportion to its share (start-time fair queueing; ties go to whoever joined first,
 * which is the engine). A host that was idle does not save up credit.
 */
export class ComputeArbiter {
  readonly #parties: Party[] = [];
  readonly #now: () => number;
  #holder: Party | null = null;
  #grantedAt = 0;
  /** Virtual time at which the last grant began: what newcomers start from. */
  #queueTime = 0;

  /** @param now monotonic milliseconds; replaced in tests */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Adds a host.
   *
   * @param share its part of the time while others also have work; any positive number, relative to the other shares
   * @param port how the arbiter tells the host: `grant` gives the cores, `yield` asks for them back at the end of the slice
   */
  join(name: string, share: number, port: ComputePort): ComputeMember {
    if (!(share > 0)) throw new RangeError(`the compute share of ${name} must be above 0, got ${share}`);
    const party: Party = { name, share, port, virtualTime: 0, usedMs: 0, isWaiting: false, wasToldToYield: false };
    this.#parties.push(party);
    return {
      request: () => this.#request(party),
      release: (wantsMore) => this.#release(party, wantsMore),
      leave: () => this.#leave(party),
      usedMs: () => party.usedMs,
    };
  }

  #request(party: Party): void {
    if (party === this.#holder || party.isWaiting) return;
    // Coming back from idle: no earlier than the clock of the queue, so that idleness is not saved up as credit.
    party.virtualTime = Math.max(party.virtualTime, this.#virtualClock());
    party.isWaiting = true;
    if (this.#holder === null) this.#grantNext();
    else this.#askHolderToYield();
  }

  #release(party: Party, wantsMore: boolean): void {
    if (party !== this.#holder) return;
    this.#settle();
    this.#holder = null;
    party.isWaiting = wantsMore;
    this.#grantNext();
  }

  /** The host is gone: whatever it held or waited for is free again. It may join anew. */
  #leave(party: Party): void {
    const index = this.#parties.indexOf(party);
    if (index >= 0) this.#parties.splice(index, 1);
    party.isWaiting = false;
    if (party !== this.#holder) return;
    this.#holder = null;
    this.#grantNext();
  }

  #grantNext(): void {
    let next: Party | null = null;
    for (const party of this.#parties) {
      if (party.isWaiting && (next === null || party.virtualTime < next.virtualTime)) next = party;
    }
    if (next === null) return;
    next.isWaiting = false;
    next.wasToldToYield = false;
    this.#queueTime = Math.max(this.#queueTime, next.virtualTime);
    this.#holder = next;
    this.#grantedAt = this.#now();
    next.port.grant();
    if (this.#parties.some((party) => party.isWaiting)) this.#askHolderToYield();
  }

  #askHolderToYield(): void {
    if (this.#holder === null || this.#holder.wasToldToYield) return;
    this.#holder.wasToldToYield = true;
    this.#holder.port.yield();
  }

  /** Virtual time of the queue now: the holder's, while there is one. */
  #virtualClock(): number {
    if (this.#holder === null) return this.#queueTime;
    return this.#holder.virtualTime + (this.#now() - this.#grantedAt) / this.#holder.share;
  }

  #settle(): void {
    if (this.#holder === null) return;
    const heldMs = this.#now() - this.#grantedAt;
    this.#holder.usedMs += heldMs;
    this.#holder.virtualTime += heldMs / this.#holder.share;
    this.#queueTime = Math.max(this.#queueTime, this.#holder.virtualTime);
  }
}

/** Messages from the arbiter to a host. */
export interface ComputePort {
  grant(): void;
  yield(): void;
}

/** Messages from a host to the arbiter. */
export interface ComputeMember {
  /** Has work and wants the cores. */
  request(): void;
  /** Gives them back; `wantsMore` queues it again in the same moment, so that the shares decide who is next. */
  release(wantsMore: boolean): void;
  leave(): void;
  /** Milliseconds held so far. */
  usedMs(): number;
}

interface Party {
  readonly name: string;
  readonly share: number;
  readonly port: ComputePort;
  virtualTime: number;
  usedMs: number;
  isWaiting: boolean;
  wasToldToYield: boolean;
}
