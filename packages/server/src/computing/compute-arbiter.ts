/**
 * Decides which host may compute on the cores right now.
 *
 * ggml and ONNX Runtime both spin at barriers: with two thread pools on the same cores a 39 ms decode step was seen to take 600 ms. So in the
 * embedded setting at most one host computes at a time, one slice (an engine step or a layer run, 10–100 ms) after the other.
 *
 * A host keeps its grant from slice to slice until it is told to yield, so an uncontended host pays no message per slice. While several have work
 * the next slice goes to the section that used the least time in proportion to its share, and within a section to the host that used the least
 * (start-time fair queueing on both levels; ties go to whoever was there first, which is the engine). Neither saves up credit while idle.
 */
export class ComputeArbiter implements ComputeSections {
  readonly #sections: Section[] = [];
  readonly #now: () => number;
  #holder: Party | null = null;
  #grantedAt = 0;
  /** Virtual time at which the last grant began: what newcomers start from. */
  #queueTime = 0;

  /** @param now monotonic milliseconds; replaced in tests */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  section(name: string, share: number): ComputeShares {
    const section = this.#newSection(name, share);
    return { join: (host, part, port) => this.#join(section, host, part, port) };
  }

  /** Adds a host with a share of its own. */
  join(name: string, share: number, port: ComputePort): ComputeMember {
    const section = this.#newSection(name, share);
    const member = this.#join(section, name, share, port);
    return {
      ...member,
      leave: () => {
        member.leave();
        const index = this.#sections.indexOf(section);
        if (index >= 0) this.#sections.splice(index, 1);
      },
    };
  }

  #newSection(name: string, share: number): Section {
    if (!(share > 0)) throw new RangeError(`the compute share of ${name} must be above 0, got ${share}`);
    const section: Section = { share, parties: [], virtualTime: 0, queueTime: 0 };
    this.#sections.push(section);
    return section;
  }

  #join(section: Section, name: string, share: number, port: ComputePort): ComputeMember {
    if (!(share > 0)) throw new RangeError(`the compute share of ${name} must be above 0, got ${share}`);
    const party: Party = { section, share, port, virtualTime: 0, usedMs: 0, isWaiting: false, wasToldToYield: false };
    section.parties.push(party);
    return {
      request: () => this.#request(party),
      release: (wantsMore) => this.#release(party, wantsMore),
      leave: () => this.#leave(party),
      usedMs: () => party.usedMs,
    };
  }

  #request(party: Party): void {
    if (party === this.#holder || party.isWaiting) return;
    const { section } = party;
    // Coming back from idle: no earlier than the clock of the queue, so that idleness is not saved up as credit.
    if (!this.#isActive(section)) section.virtualTime = Math.max(section.virtualTime, this.#virtualClock());
    party.virtualTime = Math.max(party.virtualTime, this.#clockIn(section));
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
    const { parties } = party.section;
    const index = parties.indexOf(party);
    if (index >= 0) parties.splice(index, 1);
    party.isWaiting = false;
    if (party !== this.#holder) return;
    // What it used counts for those that share with it.
    this.#settle();
    this.#holder = null;
    this.#grantNext();
  }

  #grantNext(): void {
    const section = leastServed(this.#sections.filter(hasWaiting));
    const next = leastServed(section?.parties.filter(({ isWaiting }) => isWaiting) ?? []);
    if (section === null || next === null) return;
    next.isWaiting = false;
    next.wasToldToYield = false;
    this.#queueTime = Math.max(this.#queueTime, section.virtualTime);
    section.queueTime = Math.max(section.queueTime, next.virtualTime);
    this.#holder = next;
    this.#grantedAt = this.#now();
    next.port.grant();
    if (this.#sections.some(hasWaiting)) this.#askHolderToYield();
  }

  #askHolderToYield(): void {
    if (this.#holder === null || this.#holder.wasToldToYield) return;
    this.#holder.wasToldToYield = true;
    this.#holder.port.yield();
  }

  #isActive(section: Section): boolean {
    return this.#holder?.section === section || hasWaiting(section);
  }

  /** Virtual time of the queue now: the holder's, while there is one. */
  #virtualClock(): number {
    if (this.#holder === null) return this.#queueTime;
    const { section } = this.#holder;
    return section.virtualTime + this.#heldMs() / section.share;
  }

  /** The same among the hosts of a section. */
  #clockIn(section: Section): number {
    if (this.#holder?.section !== section) return section.queueTime;
    return this.#holder.virtualTime + this.#heldMs() / this.#holder.share;
  }

  #heldMs(): number {
    return this.#now() - this.#grantedAt;
  }

  #settle(): void {
    if (this.#holder === null) return;
    const heldMs = this.#heldMs();
    const { section } = this.#holder;
    this.#holder.usedMs += heldMs;
    this.#holder.virtualTime += heldMs / this.#holder.share;
    section.queueTime = Math.max(section.queueTime, this.#holder.virtualTime);
    section.virtualTime += heldMs / section.share;
    this.#queueTime = Math.max(this.#queueTime, section.virtualTime);
  }
}

/** Where hosts get their turns on the cores. */
export interface ComputeShares {
  /**
   * Adds a host.
   *
   * @param share its part of the time while others here also have work; any positive number, relative to the other shares
   * @param port how the arbiter tells the host: `grant` gives the cores, `yield` asks for them back at the end of the slice
   */
  join(name: string, share: number, port: ComputePort): ComputeMember;
}

/** The same with shares that several hosts have together. */
export interface ComputeSections extends ComputeShares {
  /**
   * Hosts with one share between them: those that want the cores divide it, and one of them alone has all of it.
   *
   * @param share its part of the time while others also have work; any positive number, relative to the other shares
   */
  section(name: string, share: number): ComputeShares;
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

interface Section {
  readonly share: number;
  readonly parties: Party[];
  virtualTime: number;
  /** Virtual time that newcomers among its hosts start from. */
  queueTime: number;
}

interface Party {
  readonly section: Section;
  readonly share: number;
  readonly port: ComputePort;
  virtualTime: number;
  usedMs: number;
  isWaiting: boolean;
  wasToldToYield: boolean;
}

function hasWaiting({ parties }: Section): boolean {
  return parties.some(({ isWaiting }) => isWaiting);
}

/** The first of those with the least virtual time. */
function leastServed<Served extends { readonly virtualTime: number }>(candidates: readonly Served[]): Served | null {
  let least: Served | null = null;
  for (const candidate of candidates)
    if (least === null || candidate.virtualTime < least.virtualTime) least = candidate;
  return least;
}
