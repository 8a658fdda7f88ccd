/**
 * How a host computes. `alone`: its threads spin at barriers, so that nobody may compute beside it: with two such pools on the same cores a 39 ms decode step was seen
 * to take 600 ms. `beside`: its threads sleep where they wait for each other, and the operating system may divide the cores between it and others of its kind.
 */
export type CoreUse = 'alone' | 'beside';

/**
 * Decides which hosts may compute on the cores right now, one slice (an engine step or a layer run, 10–100 ms) after the other.
 *
 * A host that computes alone holds the cores alone. Of those that compute beside others one of each section holds them at a time; who of them runs on which core is
 * the business of the operating system, which goes by the niceness that their shares give them (`niceness.ts`).
 *
 * A host keeps its grant from slice to slice until it is told to yield, so an uncontended host pays no message per slice. While several have work
 * the next slice goes to the section that used the least time in proportion to its share, and within a section to the host that used the least
 * (start-time fair queueing on both levels; ties go to whoever was there first, which is the engine). Neither saves up credit while idle.
 */
export class ComputeArbiter implements ComputeSections {
  readonly #sections: Section[] = [];
  readonly #now: () => number;
  /** Several only where all compute beside others, each of another section. */
  readonly #holders = new Set<Party>();
  #settledAt = 0;
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
    // Coming back from idle: no earlier than the clock of the queue, so that idleness is not saved up as credit.
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

  /** The host is gone: whatever it held or waited for is free again. It may join anew. */
  #leave(party: Party): void {
    // What it used counts for those that share with it.
    this.#settle();
    const { parties } = party.section;
    const index = parties.indexOf(party);
    if (index >= 0) parties.splice(index, 1);
    this.#holders.delete(party);
    party.isWaiting = false;
    this.#grant();
  }

  /** Gives the cores to all who may have them now, in the order of the queue, and asks those back who are in the way of others. */
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
      // Whoever comes behind one that waits for all cores would put its turn off.
      if (inTheWay.some((holder) => holder.section !== section)) return;
      // One that was granted may have others of its section behind it.
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

  /** Virtual time of the queue now: the holders', while there are some. */
  #virtualClock(): number {
    if (this.#holders.size === 0) return this.#queueTime;
    return Math.min(...[...this.#holders].map(({ section }) => section.virtualTime));
  }

  /** The same among the hosts of a section. */
  #clockIn(section: Section): number {
    return this.#holderIn(section)?.virtualTime ?? section.queueTime;
  }

  /** Books the time since the last call. Who computes beside others is taken to have had its share of it. */
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
  /** Has work and wants the cores. @param use default `alone` */
  request(use?: CoreUse): void;
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

/** Whether two may hold the cores at the same time. */
function isBeside(a: Party, b: Party): boolean {
  return a.use === 'beside' && b.use === 'beside' && a.section !== b.section;
}

function askToYield(holder: Party): void {
  if (holder.wasToldToYield) return;
  holder.wasToldToYield = true;
  holder.port.yield();
}

/** The first of those with the least virtual time. */
function leastServed<Served extends { readonly virtualTime: number }>(candidates: readonly Served[]): Served | null {
  let least: Served | null = null;
  for (const candidate of candidates)
    if (least === null || candidate.virtualTime < least.virtualTime) least = candidate;
  return least;
}
