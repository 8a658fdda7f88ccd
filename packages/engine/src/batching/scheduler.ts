import assert from 'node:assert/strict';
import type { ModelRunner } from '../runner/model-runner.ts';
import { Backlog } from './backlog.ts';
import type { EngineLimits } from './engine-limits.ts';
import { Heap } from './heap.ts';
import { insertInOrder } from './in-order.ts';
import type { FoundPrefix, KvCache } from './kv-cache.ts';
import { commonPrefixLength } from './prefix-cache.ts';
import type { Sequence, SequenceOwner } from './sequence.ts';
import { compareTenants, GROWTH_RESERVE_TOKENS, TenantShare } from './tenant-share.ts';
import { Turns } from './turns.ts';

export type SchedulerLimits = EngineLimits & Pick<ModelRunner, 'batchTokens' | 'adaptersPerBatch'>;

/** Work of one step: the next `count` tokens of each sequence. Never empty. */
export interface StepPlan<S extends Sequence = Sequence> {
  entries: { sequence: S; count: number }[];
}

/** Limit of tenants without room for their next prompt that one step skips. */
const MAX_BLOCKED_TENANTS = 16;

/**
 * Limit while several tenants have work, so that a newcomer's step costs little more than its own tokens: a CPU
 * computes 32 rows in a quarter of the time of 128.
 */
const SHARED_DECODE_TOKENS = 32;

/**
 * Chooses the sequences to run. Admission is fair by tenant, request and choice: first the tenant with the
 * fewest running sequences, and within it the order of {@link compareBacklogs}. A tenant below an equal part of
 * slots and cells takes the rest from those above. Within a tenant, first choices displace further choices of
 * other requests, and urgent requests less urgent ones.
 *
 * Running sequences take {@link Turns}. If no cell is left, a sequence takes one from the tenant with the most.
 * A step never looks at all waiting sequences.
 */
export class Scheduler<S extends Sequence = Sequence> {
  readonly #kv: KvCache;
  readonly #limits: SchedulerLimits;
  readonly #tenants = new Map<string, TenantShare>();
  readonly #places = new Map<SequenceOwner, Place>();
  readonly #waiting = new Heap<TenantShare>(compareTenants);
  readonly #running = new Set<TenantShare>();
  readonly #aside = new Set<TenantShare>();
  readonly #turns: Turns;
  #numRunning = 0;
  #numWaiting = 0;
  #numAdmissions = 0;
  #numPlans = 0;
  #numTenantsAllowed = 64;
  numPreemptions = 0;
  prefixHitTokens = 0;
  prefixQueryTokens = 0;
  /** Requests and sequences that admission has looked at: the cost of a burst without a clock. */
  numLooks = 0;

  constructor(kv: KvCache, limits: SchedulerLimits) {
    this.#kv = kv;
    this.#limits = limits;
    this.#turns = new Turns(limits.adaptersPerBatch);
  }

  /** Includes those not yet made. */
  get numWaiting(): number {
    return this.#numWaiting;
  }
  get numRunning(): number {
    return this.#numRunning;
  }
  running(): S[] {
    return [...this.#running].flatMap((tenant) => tenant.running as S[]);
  }
  numWaitingOf(owner: SequenceOwner): number {
    return this.#places.get(owner)?.backlog?.size ?? 0;
  }
  /** Paused sequences do not count. */
  get hasWork(): boolean {
    if (this.#waiting.size > 0) return true;
    return [...this.#running].some(({ hasRunnable }) => hasRunnable);
  }

  /** @param make as in {@link Backlog} */
  add(owner: SequenceOwner, numChoices: number, make: (index: number) => S): void {
    const tenant = this.#tenantOf(owner.tenant);
    this.#places.set(owner, { tenant, backlog: new Backlog(owner, numChoices, make) });
    tenant.numRequests++;
    this.#numWaiting += numChoices;
    this.refresh(owner);
  }

  enqueue(sequences: readonly S[]): void {
    for (const sequence of sequences) {
      this.#backlogOf(sequence).add(sequence);
      this.#numWaiting++;
      this.refresh(sequence.owner);
    }
  }

  /** Must be called after a change that may affect the admission of a request's sequences. */
  refresh(owner: SequenceOwner): void {
    const { tenant, backlog = null } = this.#places.get(owner) ?? {};
    if (tenant === undefined || backlog === null) return;
    if (backlog.isReady && !owner.isPaused && !owner.hasEnded) tenant.backlogs.place(backlog);
    else tenant.backlogs.remove(backlog);
    this.#placeTenant(tenant);
  }

  finish(sequence: Sequence, keepsCells: boolean): void {
    const { owner } = sequence;
    if (sequence.slot === null) {
      this.#backlogOf(sequence).take(sequence);
      this.#numWaiting--;
    } else this.#stopRunning(sequence);
    if (keepsCells) this.#kv.retain(sequence);
    else this.#kv.release(sequence);
    sequence.close();
    this.refresh(owner);
  }

  drop(owner: SequenceOwner, keepsCells: boolean): void {
    const place = this.#places.get(owner);
    if (place === undefined || place.backlog === null) return;
    const { tenant, backlog } = place;
    this.#numWaiting -= backlog.size;
    for (const sequence of backlog.made) sequence.close();
    tenant.backlogs.remove(backlog);
    place.backlog = null; // prevents further enqueuing
    tenant.numRequests--;
    for (const sequence of tenant.running.filter((other) => other.owner === owner)) this.finish(sequence, keepsCells);
    this.#places.delete(owner);
    this.#placeTenant(tenant);
  }

  admit(): S[] {
    const admitted: S[] = [];
    const deferred: Backlog[] = [];
    const numDeferred = new Map<TenantShare, number>();
    const shares = this.#equalShares();
    let numBlocked = 0;
    let lacksCells = false;
    for (let tenant = this.#waiting.top; tenant !== undefined; tenant = this.#waiting.top) {
      // While a prompt waits for cells, tenants with running sequences wait too; otherwise it could starve.
      if (numBlocked > MAX_BLOCKED_TENANTS || (lacksCells && tenant.running.length > 0)) break;
      this.numLooks++;
      const backlog = tenant.backlogs.top!;
      const sequence = backlog.next;
      const found = this.#awaitsPrefix(sequence) ? null : this.#kv.findPrefix(sequence, tenant.running);
      if (found !== null) sequence.awaitedPrefix = this.#findPendingPrefix(sequence, found.length);
      if (found === null || sequence.awaitedPrefix !== null) {
        const count = (numDeferred.get(tenant) ?? 0) + backlog.size;
        numDeferred.set(tenant, count);
        deferred.push(backlog);
        tenant.backlogs.remove(backlog);
        // Sequences waiting for a prefix will need the slots that are free now, so stop looking.
        if (tenant.running.length + count >= this.#limits.maxRunning) this.#aside.add(tenant);
        this.#placeTenant(tenant);
        continue;
      }
      const prefix = this.#freeCells(tenant, sequence, found, shares);
      if (prefix === null) {
        numBlocked++;
        lacksCells ||= this.#numRunning < this.#limits.maxRunning;
        this.#aside.add(tenant);
        this.#placeTenant(tenant);
        continue;
      }
      this.#start(sequence, prefix);
      admitted.push(sequence as S);
    }
    const asides = [...this.#aside];
    this.#aside.clear();
    for (const tenant of asides) this.#placeTenant(tenant);
    for (const { owner } of deferred) this.refresh(owner);
    return admitted;
  }

  #start(sequence: Sequence, prefix: FoundPrefix): void {
    const { owner } = sequence;
    const tenant = this.#shareOf(sequence);
    this.#backlogOf(sequence).take(sequence);
    this.#numWaiting--;
    this.#kv.open(sequence, prefix, tenant);
    this.prefixQueryTokens += sequence.tokens.length;
    this.prefixHitTokens += sequence.numComputed;
    insertInOrder(tenant.running, sequence);
    this.#running.add(tenant);
    this.#numRunning++;
    tenant.lastAdmission = ++this.#numAdmissions;
    this.refresh(owner);
  }

  /** Preempts others if needed. @returns the prefix, or null */
  #freeCells(tenant: TenantShare, sequence: Sequence, found: FoundPrefix, shares: Shares): FoundPrefix | null {
    let prefix = found;
    for (;;) {
      const neededTokens = this.#kv.cellsNeeded(sequence, prefix);
      const hasSlot = this.#numRunning < this.#limits.maxRunning;
      if (hasSlot && this.#claimedTokens() + neededTokens <= this.#kv.obtainableTokens) return prefix;
      const victim =
        this.#lastPaused() ??
        this.#donorOf(tenant, hasSlot ? neededTokens : null, shares)?.lastToKeep ??
        this.#lessUrgent(tenant, sequence);
      if (victim === undefined) return null;
      this.#preempt(victim);
      prefix = this.#kv.findPrefix(sequence, tenant.running);
    }
  }

  /** Cells that running sequences will still need. */
  #claimedTokens(): number {
    let claimed = 0;
    for (const tenant of this.#running) claimed += tenant.claimedTokens - tenant.liveCells;
    return claimed;
  }

  /** A paused sequence of the tenant with the most of them: no client waits for its next token. */
  #lastPaused(): Sequence | undefined {
    return this.#largest((tenant) => tenant.numPaused, 0)?.lastPaused;
  }

  /** @param neededTokens null = the tenant lacks a slot */
  #donorOf(tenant: TenantShare, neededTokens: number | null, shares: Shares): TenantShare | undefined {
    const amountOf = (of: TenantShare): number => (neededTokens === null ? of.running.length : of.claimedTokens);
    const share = neededTokens === null ? shares.slots : shares.tokens;
    const wanted = neededTokens === null ? 1 : neededTokens + GROWTH_RESERVE_TOKENS;
    if (amountOf(tenant) + wanted > share) return undefined;
    return this.#largest(amountOf, share);
  }

  #largest(amountOf: (tenant: TenantShare) => number, limit = -1): TenantShare | undefined {
    let largest: TenantShare | undefined;
    let most = limit;
    for (const tenant of this.#running) {
      const amount = amountOf(tenant);
      if (amount > most) [largest, most] = [tenant, amount];
    }
    return largest;
  }

  #lessUrgent(tenant: TenantShare, sequence: Sequence): Sequence | undefined {
    // Beams that wait for their siblings must not block everything else once nothing else runs.
    if (!tenant.hasRunnable) {
      const isAlone = [...this.#running].every(({ hasRunnable }) => !hasRunnable);
      return tenant.lastToKeep ?? (isAlone ? this.#largest(({ running }) => running.length)?.lastToKeep : undefined);
    }
    const last = tenant.running.at(-1)!;
    const { priority } = sequence.owner;
    const isLess = last.owner.priority > priority || (last.owner.priority === priority && last.round > sequence.round);
    return isLess ? last : undefined;
  }

  /** Equal part for each tenant with work; paused sequences are not work. */
  #equalShares(): Shares {
    let numTenants = this.#waiting.size;
    for (const tenant of this.#running) if (tenant.backlogs.size === 0 && tenant.hasRunnable) numTenants++;
    const count = Math.max(1, numTenants);
    return {
      slots: Math.max(1, Math.floor(this.#limits.maxRunning / count)),
      tokens: Math.floor(this.#kv.capacityTokens / count),
    };
  }

  /** Includes a bounded part of prompts. Takes the cells. */
  plan(): StepPlan<S> | null {
    const group = this.#turns.next(this.#running) as S[] | null;
    if (group === null) return null;
    const plan: StepPlan<S> = { entries: [] };
    for (const sequence of this.#decodingNow(group)) this.#take(sequence, 1, plan);
    const isDecoding = this.running().some((sequence) => sequence.isRunnable && sequence.numRemaining === 1);
    const { prefillTokens, prefillTokensWhileDecoding, batchTokens } = this.#limits;
    let budget = Math.min(isDecoding ? prefillTokensWhileDecoding : prefillTokens, batchTokens - plan.entries.length);
    let rowBudget = this.#limits.promptLogprobRows;
    for (const sequence of group) {
      if (budget <= 0) break;
      if (sequence.slot === null || sequence.numRemaining === 1) continue;
      const isScoring = sequence.isScoringPrompt;
      const count = Math.min(budget, sequence.numRemaining, isScoring ? rowBudget : Infinity);
      if (count === 0) continue;
      const taken = this.#take(sequence, count, plan);
      budget -= taken;
      if (isScoring) rowBudget -= taken;
    }
    if (plan.entries.length === 0) return null;
    this.#charge(plan);
    return plan;
  }

  /** While tenants share the engine, each step takes a few, in turns. */
  #decodingNow(group: readonly S[]): S[] {
    this.#numPlans++;
    let decoding = group.filter(({ numRemaining }) => numRemaining === 1);
    const isShared = [...this.#running].filter(({ hasRunnable }) => hasRunnable).length > 1;
    if (isShared && decoding.length > SHARED_DECODE_TOKENS) {
      // Tenants keep their order: the one with the least service first.
      const order = new Map(
        [...new Set(decoding.map((sequence) => this.#shareOf(sequence)))].map((of, at) => [of, at]),
      );
      const placeOf = (sequence: S): number => order.get(this.#shareOf(sequence))!;
      decoding = decoding
        .sort((a, b) => placeOf(a) - placeOf(b) || a.lastPlan - b.lastPlan)
        .slice(0, SHARED_DECODE_TOKENS);
    }
    for (const sequence of decoding) sequence.lastPlan = this.#numPlans;
    return decoding;
  }

  #charge({ entries }: StepPlan): void {
    const tokens = new Map<TenantShare, number>();
    for (const { sequence, count } of entries) {
      const tenant = this.#shareOf(sequence);
      tokens.set(tenant, (tokens.get(tenant) ?? 0) + count);
    }
    this.#turns.charge(tokens);
  }

  /** Gives up cells after the runner ran short. @returns false if only the plan's last sequence is left */
  yieldCells(plan: StepPlan<S>): boolean {
    if (this.#kv.evictAll()) return true;
    if (this.#numRunning < 2) return false;
    const victim = this.#whoGivesCells();
    this.#preempt(victim);
    plan.entries = plan.entries.filter(({ sequence }) => sequence !== victim);
    return true;
  }

  checkIntegrity(): void {
    let [numRunning, numWaiting] = [0, 0];
    const backlogs = new Set<Backlog>();
    for (const tenant of this.#tenants.values()) {
      const { running } = tenant;
      for (let i = 1; i < running.length; i++)
        assert(running[i - 1]!.compare(running[i]!) < 0, 'sequences are in order');
      assert.equal(this.#running.has(tenant), running.length > 0, 'tenants that run something');
      assert.equal(tenant.heapPlace >= 0, tenant.backlogs.size > 0, 'tenants that wait for something');
      numRunning += running.length;
      for (const { owner } of running) backlogs.add(this.#places.get(owner)!.backlog!);
      for (const backlog of tenant.backlogs.values()) backlogs.add(backlog);
    }
    for (const { made, size } of backlogs) {
      numWaiting += size;
      for (const { slot, numComputed } of made)
        assert(slot === null && numComputed === 0, 'a waiting sequence holds no cells');
    }
    assert.equal(numRunning, this.#numRunning, 'running sequences');
    assert(numWaiting <= this.#numWaiting, 'waiting sequences'); // paused requests are in no queue
    this.#kv.checkIntegrity(this.running());
  }

  #awaitsPrefix({ awaitedPrefix }: Sequence): boolean {
    if (awaitedPrefix === null) return false;
    const { leader, length } = awaitedPrefix;
    return leader.slot !== null && leader.isRunnable && leader.numComputed < length;
  }

  /** Running sequence about to compute a longer common prefix than the one found. */
  #findPendingPrefix(sequence: Sequence, foundLength: number): Sequence['awaitedPrefix'] {
    let best: Sequence['awaitedPrefix'] = null;
    const { tokens, owner } = sequence;
    for (const leader of this.#shareOf(sequence).running) {
      if (leader.numRemaining <= 1 || !leader.isRunnable || leader.owner.namespace !== owner.namespace) continue;
      const toBeat = best?.length ?? foundLength;
      const length = this.#kv.rounded(commonPrefixLength(tokens, leader.tokens, sequence.maxSharedTokens, toBeat));
      if (length > toBeat) best = { leader, length };
    }
    return best;
  }

  /** Preempts others if cells run out. @returns the tokens planned */
  #take(sequence: S, count: number, plan: StepPlan<S>): number {
    while (sequence.slot !== null && this.#kv.obtainableTokens === 0) {
      const victim = this.#whoGivesCells();
      this.#preempt(victim);
      plan.entries = plan.entries.filter((entry) => entry.sequence !== victim);
    }
    if (sequence.slot === null) return 0;
    const taken = Math.min(count, this.#kv.obtainableTokens);
    this.#kv.grow(sequence, taken);
    plan.entries.push({ sequence, count: taken });
    return taken;
  }

  /** Sequence to preempt: a paused one, else the last of the tenant with the most cells. */
  #whoGivesCells(): Sequence {
    const idleOf = ({ running }: TenantShare): number => running.filter(({ isRunnable }) => !isRunnable).length;
    const tenant = this.#largest(idleOf, 0) ?? this.#largest(({ claimedTokens }) => claimedTokens);
    return this.#lastPaused() ?? tenant!.lastToKeep!;
  }

  /**
   * The victim keeps its tokens, text and random numbers. Cells of a paused one become a cache entry, so that it
   * can continue without recomputation.
   */
  #preempt(victim: Sequence): void {
    this.#stopRunning(victim);
    if (victim.owner.isPaused) this.#kv.retain(victim);
    else this.#kv.release(victim);
    this.#backlogOf(victim).add(victim);
    this.#numWaiting++;
    this.numPreemptions++;
    this.refresh(victim.owner);
  }

  #stopRunning(sequence: Sequence): void {
    const tenant = this.#shareOf(sequence);
    tenant.running.splice(tenant.running.indexOf(sequence), 1);
    this.#numRunning--;
    if (tenant.running.length === 0) this.#running.delete(tenant);
    this.#placeTenant(tenant);
  }

  #shareOf({ owner }: Sequence): TenantShare {
    return this.#places.get(owner)!.tenant;
  }

  #backlogOf({ owner }: Sequence): Backlog {
    return this.#places.get(owner)!.backlog!;
  }

  #placeTenant(tenant: TenantShare): void {
    if (tenant.backlogs.size > 0 && !this.#aside.has(tenant)) this.#waiting.place(tenant);
    else this.#waiting.remove(tenant);
  }

  #tenantOf(name: string): TenantShare {
    let tenant = this.#tenants.get(name);
    if (tenant !== undefined) return tenant;
    this.#forgetIdleTenants();
    tenant = new TenantShare(name, this.#turns.startingTime);
    this.#tenants.set(name, tenant);
    return tenant;
  }

  /** Checks all tenants only after their number has doubled. */
  #forgetIdleTenants(): void {
    if (this.#tenants.size < this.#numTenantsAllowed) return;
    for (const [name, tenant] of this.#tenants) {
      const isIdle = !tenant.hasWork && tenant.numRequests === 0 && tenant.heldCells === 0;
      if (isIdle && this.#turns.isForgotten(tenant)) this.#tenants.delete(name);
    }
    this.#numTenantsAllowed = 2 * this.#tenants.size + 64;
  }
}

interface Place {
  readonly tenant: TenantShare;
  /** null while it is being dropped. */
  backlog: Backlog | null;
}

interface Shares {
  slots: number;
  tokens: number;
}
