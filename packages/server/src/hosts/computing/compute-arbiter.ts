/**
 * Use of the cores by a host. `alone`: its threads spin at barriers, so no other host may compute at the same
 * time (with two such pools on the same cores a 39 ms decode step took 600 ms). `beside`: its threads sleep
 * while they wait, so the operating system may share the cores between hosts of this kind.
 */
export type CoreUse = 'alone' | 'beside';

/**
 * Decides which hosts may compute on the cores, one slice (an engine step or a layer run, 10–100 ms) after
 * the other.
 * An `alone` host holds the cores exclusively. Of the `beside` hosts one per section holds them at a time;
 * the operating system divides the cores by the niceness of their shares (`niceness.ts`).
 * A host keeps its grant until the arbiter asks it to yield, so without contention there is no message per
 * slice. With contention the next slice goes to the section with the least used time in proportion to its
 * share, and in it to the host that used the least (start-time fair queueing on both levels; ties go to the
 * host that joined first, which is the engine). Neither gains credit while idle.
 */
export class ComputeArbiter implements ComputeSections {
  readonly #sections: Section[] = [];
  readonly #now: () => number;
  /** More than one only if all are `beside`, each from another section. */
  readonly #holders = new Set<Party>();
  #settledAt = 0;
  /** Virtual time at which the last grant started: the initial time of newcomers. */
  #queueTime = 0;

  /** @param now monotonic milliseconds; replaced in tests */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  section(name: string, share: number): ComputeShares {
    const section = this.#newSection(name, share);
    return { join: (host, part, port) => this.#join(section, host, part, port) };
  }

  /** Adds a host as a section of its own. */
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
    const party: Party = {
      section,
      share,
      port,
      use: 'alone',
      virtualTime: 0,
      usedMs: 0,
      isWaiting: false,
      wasToldToYield: false,
    };
    section.parties.push(party);
    return {
      request: (use = 'alone') => this.#request(party, use),
      release: (wantsMore) => this.#release(party, wantsMore),
      leave: () => this.#leave(party),
      usedMs: () => party.usedMs,
    };
  }

  #request(party: Party, use: CoreUse): void {
    if (this.#holders.has(party) || party.isWaiting) return;
    this.#settle();
    const { section } = party;
    // A host that was idle starts no earlier than the queue's clock, so that idle time gives no credit.
    if (!this.#isActive(section)) section.virtualTime = Math.max(section.virtualTime, this.#virtualClock());
    party.virtualTime = Math.max(party.virtualTime, this.#clockIn(section));
    party.use = use;
    party.isWaiting = true;
    this.#grant();
  }

  #release(party: Party, wantsMore: boolean): void {
    if (!this.#holders.has(party)) return;
    this.#settle();
    this.#holders.delete(party);
    party.isWaiting = wantsMore;
    this.#grant();
  }

  /** Removes a host that has ended. It may join again. */
  #leave(party: Party): void {
    // Its time still counts for the section.
    this.#settle();
    const { parties } = party.section;
    const index = parties.indexOf(party);
    if (index >= 0) parties.splice(index, 1);
    this.#holders.delete(party);
    party.isWaiting = false;
    this.#grant();
  }

  /**
   * Grants the cores in queue order to all hosts that may have them now, and asks holders that block others
   * to yield.
   */
  #grant(): void {
    const looked = new Set<Section>();
    for (;;) {
      const section = leastServed(this.#sections.filter((one) => hasWaiting(one) && !looked.has(one)));
      const next = leastServed(section?.parties.filter(({ isWaiting }) => isWaiting) ?? []);
      if (section === null || next === null) return;
      looked.add(section);
      const inTheWay = [...this.#holders].filter((holder) => !isBeside(holder, next));
      if (inTheWay.length === 0) this.#grantTo(next);
      for (const holder of inTheWay) askToYield(holder);
      // Granting later ones would delay the host that waits for all cores.
      if (inTheWay.some((holder) => holder.section !== section)) return;
      // The granted host may itself block others of its section.
      if (inTheWay.length === 0 && hasWaiting(section)) askToYield(next);
    }
  }

  #grantTo(next: Party): void {
    const { section } = next;
    next.isWaiting = false;
    next.wasToldToYield = false;
    this.#queueTime = Math.max(this.#queueTime, section.virtualTime);
    section.queueTime = Math.max(section.queueTime, next.virtualTime);
    this.#holders.add(next);
    next.port.grant();
  }

  #isActive(section: Section): boolean {
    return hasWaiting(section) || this.#holderIn(section) !== undefined;
  }

  #holderIn(section: Section): Party | undefined {
    return [...this.#holders].find((holder) => holder.section === section);
  }

  /** Current virtual time of the queue: that of the holders, if any. */
  #virtualClock(): number {
    if (this.#holders.size === 0) return this.#queueTime;
    return Math.min(...[...this.#holders].map(({ section }) => section.virtualTime));
  }

  /** The same among the hosts of a section. */
  #clockIn(section: Section): number {
    return this.#holderIn(section)?.virtualTime ?? section.queueTime;
  }

  /** Books the time since the last call. A `beside` holder is assumed to have had its share of the cores. */
  #settle(): void {
    const now = this.#now();
    const elapsedMs = now - this.#settledAt;
    this.#settledAt = now;
    const shares = [...this.#holders].reduce((sum, { section }) => sum + section.share, 0);
    for (const holder of this.#holders) {
      const { section } = holder;
      const usedMs = elapsedMs * (section.share / shares);
      holder.usedMs += usedMs;
      holder.virtualTime += usedMs / holder.share;
      section.virtualTime += usedMs / section.share;
      section.queueTime = Math.max(section.queueTime, holder.virtualTime);
      this.#queueTime = Math.max(this.#queueTime, section.virtualTime);
    }
  }
}

/** Assigns hosts their turns on the cores. */
export interface ComputeShares {
  /**
   * Adds a host.
   * @param share its part of the time under contention; any positive number, relative to the other shares
   * @param port messages to the host: `grant` gives the cores, `yield` asks for them back at the end of the
   * slice
   */
  join(name: string, share: number, port: ComputePort): ComputeMember;
}

export interface ComputeSections extends ComputeShares {
  /**
   * Hosts with one common share: those that want the cores divide it, and a single one has all of it.
   * @param share its part of the time under contention; any positive number, relative to the other shares
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
  /** Requests the cores for waiting work. @param use default `alone` */
  request(use?: CoreUse): void;
  /** Returns the cores; `wantsMore` queues the host again at once, so that the shares decide who is next. */
  release(wantsMore: boolean): void;
  leave(): void;
  /** Milliseconds held so far. */
  usedMs(): number;
}

interface Section {
  readonly share: number;
  readonly parties: Party[];
  virtualTime: number;
  /** Initial virtual time of hosts that join the section. */
  queueTime: number;
}

interface Party {
  readonly section: Section;
  readonly share: number;
  readonly port: ComputePort;
  /** As of its last request. */
  use: CoreUse;
  virtualTime: number;
  usedMs: number;
  isWaiting: boolean;
  wasToldToYield: boolean;
}

function hasWaiting({ parties }: Section): boolean {
  return parties.some(({ isWaiting }) => isWaiting);
}

/** True if two hosts may hold the cores at the same time. */
function isBeside(a: Party, b: Party): boolean {
  return a.use === 'beside' && b.use === 'beside' && a.section !== b.section;
}

function askToYield(holder: Party): void {
  if (holder.wasToldToYield) return;
  holder.wasToldToYield = true;
  holder.port.yield();
}

/** First candidate with the least virtual time. */
function leastServed<Served extends { readonly virtualTime: number }>(candidates: readonly Served[]): Served | null {
  let least: Served | null = null;
  for (const candidate of candidates)
    if (least === null || candidate.virtualTime < least.virtualTime) least = candidate;
  return least;
}
