import { HashRing } from '@trainyard/backend';
import type { Feed, Member, Members } from '@trainyard/store';

import type { EngineSecret } from '../wire/engine-secret.ts';
import type { EngineModelFacts } from '../wire/engine-wire.ts';
import { EngineLink, type EngineTimes } from './engine-link.ts';

/**
 * Interval of full reads: engines register once and renew. New ones cause a notification; this finds missed
 * ones.
 */
const LIST_MS = 5_000;

export interface EngineDirectoryOptions {
  readonly store: { readonly members: Pick<Members, 'list'>; readonly feed: Pick<Feed, 'watch'> };
  readonly secret: EngineSecret;
  readonly times: EngineTimes;
  readonly log: (line: string) => void;
}

interface ModelEngines {
  readonly facts: EngineModelFacts;
  readonly links: readonly EngineLink[];
  readonly ring: HashRing<EngineLink>;
}

/**
 * Registered engines, checked every two seconds. Facts about a base model stay known after its engines have
 * left: it comes back the same. Engines of one base model must have equal facts for checks and answers; the
 * oldest present one decides these facts.
 */
export class EngineDirectory {
  readonly #options: EngineDirectoryOptions;
  readonly #links = new Map<string, EngineLink>();
  readonly #models = new Map<string, ModelEngines>();
  /** Registered base models, with or without an engine. */
  #registered: ReadonlySet<string> = new Set();
  /** Logged lines, by link and model: each difference once. */
  readonly #logged = new Set<string>();
  /** Running checks other than the periodic ones. */
  readonly #looks = new Set<Promise<void>>();
  #timers: NodeJS.Timeout[] = [];
  #unwatch: () => void = () => undefined;
  #listing: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: EngineDirectoryOptions) {
    this.#options = options;
  }

  /** Settles once each registered engine was checked. @throws {StoreError} */
  async start(): Promise<void> {
    const { store, times } = this.#options;
    await this.#list();
    this.#timers = [
      setInterval(() => void this.refresh(), LIST_MS).unref(),
      setInterval(() => void this.#lookAtAll(), times.lookMs).unref(),
    ];
    this.#unwatch = store.feed.watch(() => void this.refresh());
  }

  close(): void {
    this.#isClosed = true;
    this.#unwatch();
    for (const timer of this.#timers) clearInterval(timer);
    for (const link of this.#links.values()) link.close();
  }

  get links(): readonly EngineLink[] {
    return [...this.#links.values()];
  }

  /** Facts of every base model that an engine has, or had. */
  get facts(): readonly EngineModelFacts[] {
    return Array.from(this.#models.values(), ({ facts }) => facts);
  }

  factsOf(id: string): EngineModelFacts | null {
    return this.#models.get(id)?.facts ?? null;
  }

  isRegistered(id: string): boolean {
    return this.#registered.has(id);
  }

  /** Engines of a base model with equal facts that take requests. */
  openLinks(id: string): readonly EngineLink[] {
    const known = this.#models.get(id);
    return known === undefined ? [] : known.links.filter((link) => this.#fits(link, known.facts));
  }

  /** Engine for a key, or null if all have been tried. */
  pick(id: string, key: string, numChoices: number, tried: ReadonlySet<EngineLink>): EngineLink | null {
    const known = this.#models.get(id);
    if (known === undefined) return null;
    const isOpen = (link: EngineLink) => !tried.has(link) && this.#fits(link, known.facts);
    return known.ring.pick(key, isOpen, numChoices);
  }

  /** Reads the table again, once possible. Settles after the try. */
  refresh(): Promise<void> {
    this.#listing = this.#listing.then(async () => {
      try {
        if (!this.#isClosed) await this.#list();
      } catch {
        // Known engines stay while the database does not answer.
      }
    });
    return this.#listing;
  }

  /** Checks an engine again, after a failure with it. */
  recheck(link: EngineLink): void {
    const look = link.look().then(() => {
      this.#settle();
      this.#looks.delete(look);
    });
    this.#looks.add(look);
  }

  /** Settles once engines with a failure were checked: after one broken stream most are still available. */
  async whenLookedAgain(): Promise<void> {
    await Promise.all(this.#looks);
  }

  async #list(): Promise<void> {
    const { store, secret, times, log } = this.#options;
    const members = await store.members.list();
    this.#registered = new Set(members.flatMap(({ baseModels }) => baseModels.map(({ id }) => id)));
    const engines = new Map<string, Member>();
    for (const member of members) if (member.role === 'engine' && member.url !== null) engines.set(member.url, member);
    const added: EngineLink[] = [];
    for (const [url, member] of engines) {
      const link = this.#links.get(url);
      if (link !== undefined) link.member = member;
      else added.push(new EngineLink({ url, member, secret, times, log }));
    }
    for (const link of added) this.#links.set(link.name, link);
    for (const link of this.links) {
      // An engine with an expired lease that still answers cannot write to the database for now.
      if (engines.has(link.name) || link.isThere) continue;
      this.#links.delete(link.name);
      link.close();
    }
    await Promise.all(added.map((link) => link.look()));
    this.#settle();
  }

  async #lookAtAll(): Promise<void> {
    await Promise.all(this.links.map((link) => link.look()));
    this.#settle();
  }

  /** Determines the facts of each base model, and the engines that share them. */
  #settle(): void {
    const byAge = this.links
      .filter(({ isThere }) => isThere)
      .toSorted((a, b) => a.member.startedAt - b.member.startedAt || (a.name < b.name ? -1 : 1));
    const ids = new Set(byAge.flatMap(({ models }) => models.map(({ facts }) => facts.id)));
    for (const id of ids) {
      const oldest = byAge.find((link) => link.modelOf(id) !== null);
      const facts = oldest?.modelOf(id)?.facts;
      if (oldest === undefined || facts === undefined) continue;
      const having = this.links.filter((link) => link.modelOf(id) !== null);
      for (const link of having) this.#warnOfDifference(link, oldest, facts);
      const links = having.filter((link) => !isOther(link, oldest, facts));
      this.#models.set(id, { facts, links, ring: new HashRing(links) });
    }
  }

  #fits(link: EngineLink, { id }: EngineModelFacts): boolean {
    return link.isUp && link.modelOf(id) !== null;
  }

  #warnOfDifference(link: EngineLink, oldest: EngineLink, facts: EngineModelFacts): void {
    const difference = link.differenceFrom(oldest, facts);
    const line = `${link.name} has the base model ${facts.id} with ${difference} than ${oldest.name}: it gets no requests for this model; start both with the same file and settings`;
    if (difference === null || this.#logged.has(line)) return;
    this.#logged.add(line);
    this.#options.log(line);
  }
}

function isOther(link: EngineLink, oldest: EngineLink, facts: EngineModelFacts): boolean {
  return link.differenceFrom(oldest, facts) !== null;
}
