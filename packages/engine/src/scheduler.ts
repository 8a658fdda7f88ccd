import assert from 'node:assert/strict';
import type { ActiveRequest } from './active-request.ts';
import type { EngineLimits } from './engine-limits.ts';
import type { FoundPrefix, KvCache } from './kv-cache.ts';
import { commonPrefixLength } from './prefix-cache.ts';
import type { Sequence } from './sequence.ts';

/** What one step computes: for each sequence its next `count` tokens, all under one adapter. Never empty. */
export interface StepPlan {
  entries: { sequence: Sequence; count: number }[];
}

/** `priority`: lower numbers first, and a more urgent request takes cells and slots from less urgent ones. `fcfs`: in order of arrival. */
export type SchedulingPolicy = 'priority' | 'fcfs';

// Cells left to each running sequence when another is admitted: without them a newcomer would soon be preempted again.
const GROWTH_RESERVE_TOKENS = 16;

/**
 * Who runs next. Waiting sequences are admitted in order (priority, arrival, choice) while slots and cells suffice, or can be had from those
 * of a larger priority number; running ones take turns by adapter, since a batch has one; a sequence that needs a cell when none is left
 * takes it from the last in that order.
 */
export class Scheduler {
  readonly #kv: KvCache;
  readonly #limits: EngineLimits & { batchTokens: number };
  /** Both in order of {@link Sequence.compare}. */
  #waiting: Sequence[] = [];
  #running: Sequence[] = [];
  /** Step in which each adapter group last had its turn. */
  readonly #lastTurns = new Map<string | null, number>();
  #turn = 0;
  numPreemptions = 0;
  prefixHitTokens = 0;
  prefixQueryTokens = 0;

  constructor(kv: KvCache, limits: EngineLimits & { batchTokens: number }) {
    this.#kv = kv;
    this.#limits = limits;
  }

  get waiting(): readonly Sequence[] {
    return this.#waiting;
  }
  get running(): readonly Sequence[] {
    return this.#running;
  }
  /** True when a step would compute something: paused sequences do not count. */
  get hasWork(): boolean {
    return (
      this.#running.some((sequence) => sequence.isRunnable) || this.#waiting.some((sequence) => sequence.isRunnable)
    );
  }

  enqueue(sequences: readonly Sequence[]): void {
    for (const sequence of sequences) insertInOrder(this.#waiting, sequence);
  }

  /** Takes an ended sequence out. @param keepsCells as a cache entry */
  finish(sequence: Sequence, keepsCells: boolean): void {
    if (sequence.slot === null) this.#waiting = this.#waiting.filter((other) => other !== sequence);
    else this.#running = this.#running.filter((other) => other !== sequence);
    if (keepsCells) this.#kv.retain(sequence);
    else this.#kv.release(sequence);
    sequence.close();
  }

  /** Takes all sequences of an ended request out. */
  drop(owner: ActiveRequest, keepsCells: boolean): void {
    for (const sequence of this.#running) if (sequence.owner === owner) this.finish(sequence, keepsCells);
    const waiting = this.#waiting.filter((sequence) => sequence.owner === owner);
    if (waiting.length === 0) return;
    this.#waiting = this.#waiting.filter((sequence) => sequence.owner !== owner);
    for (const sequence of waiting) sequence.close();
  }

  /** Moves waiting sequences to running. */
  admit(): Sequence[] {
    const admitted: Sequence[] = [];
    let numDeferred = 0;
    // Preemption adds to the list; those it adds wait for the next step.
    for (const sequence of this.#waiting.slice()) {
      if (!sequence.isRunnable || sequence.owner.hasEnded) continue;
      // Those that wait for a prefix will want the slots that are free now; looking further would be in vain.
      if (numDeferred > 0 && this.#running.length + numDeferred >= this.#limits.maxRunning) break;
      if (this.#awaitsPrefix(sequence)) {
        numDeferred++;
        continue;
      }
      const found = this.#kv.findPrefix(sequence, this.#running);
      sequence.awaitedPrefix = this.#findPendingPrefix(sequence, found.length);
      if (sequence.awaitedPrefix !== null) {
        numDeferred++;
        continue;
      }
      const prefix = this.#makeRoom(sequence, found);
      if (prefix === null) break;
      this.#kv.open(sequence, prefix);
      this.prefixQueryTokens += sequence.tokens.length;
      this.prefixHitTokens += sequence.numComputed;
      insertInOrder(this.#running, sequence);
      admitted.push(sequence);
    }
    if (admitted.length > 0) this.#waiting = this.#waiting.filter((sequence) => sequence.slot === null);
    return admitted;
  }

  /** Sees to it that slot and cells suffice for a waiting sequence; less urgent ones give way. @returns its prefix then, or null */
  #makeRoom(sequence: Sequence, found: FoundPrefix): FoundPrefix | null {
    let prefix = found;
    while (!this.#fits(sequence, prefix)) {
      const last = this.#running.at(-1);
      if (last === undefined) return null;
      if (last.owner.priority > sequence.owner.priority) {
        this.#preempt(last);
        prefix = this.#kv.findPrefix(sequence, this.#running);
        continue;
      }
      // A stream nobody reads must not keep everybody else waiting once nothing else runs; the next step tries again.
      if (!this.#running.some((other) => other.isRunnable)) this.#preempt(last);
      return null;
    }
    return prefix;
  }

  #fits(sequence: Sequence, prefix: FoundPrefix): boolean {
    if (this.#running.length >= this.#limits.maxRunning) return false;
    let claimedTokens = this.#kv.cellsNeeded(sequence, prefix);
    for (const other of this.#running) claimedTokens += other.numRemaining + GROWTH_RESERVE_TOKENS;
    return claimedTokens <= this.#kv.obtainableTokens;
  }

  /** Chooses the adapter whose turn it is, its decode tokens and a bounded chunk of its prompts; cells are taken. */
  plan(): StepPlan | null {
    const group = this.#nextGroup();
    if (group === null) return null;
    const plan: StepPlan = { entries: [] };
    for (const sequence of group) if (sequence.numRemaining === 1) this.#take(sequence, 1, plan);
    const isDecoding = this.#running.some((sequence) => sequence.isRunnable && sequence.numRemaining === 1);
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
    return plan.entries.length > 0 ? plan : null;
  }

  /** After the runner was short of cells: gives some up. @returns false when there is nothing to give up but the plan's last sequence */
  yieldCells(plan: StepPlan): boolean {
    if (this.#kv.evictAll()) return true;
    const victim = this.#running.at(-1);
    if (victim === undefined || this.#running.length < 2) return false;
    this.#preempt(victim);
    plan.entries = plan.entries.filter(({ sequence }) => sequence !== victim);
    return true;
  }

  checkIntegrity(): void {
    for (const list of [this.#running, this.#waiting]) {
      for (let i = 1; i < list.length; i++) assert(list[i - 1]!.compare(list[i]!) < 0, 'sequences are in order');
    }
    for (const sequence of this.#waiting)
      assert(sequence.slot === null && sequence.numComputed === 0, 'a waiting sequence holds no cells');
    this.#kv.checkIntegrity(this.#running);
  }

  #awaitsPrefix({ awaitedPrefix }: Sequence): boolean {
    if (awaitedPrefix === null) return false;
    const { leader, length } = awaitedPrefix;
    return leader.slot !== null && leader.isRunnable && leader.numComputed < length;
  }

  /** A running sequence that is about to compute a longer common prefix than the one found. */
  #findPendingPrefix(sequence: Sequence, foundLength: number): Sequence['awaitedPrefix'] {
    let best: Sequence['awaitedPrefix'] = null;
    const { tokens, owner } = sequence;
    for (const leader of this.#running) {
      if (leader.numRemaining <= 1 || !leader.isRunnable || leader.owner.namespace !== owner.namespace) continue;
      const toBeat = best?.length ?? foundLength;
      const length = commonPrefixLength(tokens, leader.tokens, sequence.maxSharedTokens, toBeat);
      if (length > toBeat) best = { leader, length };
    }
    return best;
  }

  /** The runnable sequences of the adapter that waited longest for its turn. */
  #nextGroup(): Sequence[] | null {
    const groups = new Map<string | null, Sequence[]>();
    for (const sequence of this.#running) {
      if (!sequence.isRunnable) continue;
      const digest = sequence.owner.adapterDigest;
      const group = groups.get(digest);
      if (group) group.push(sequence);
      else groups.set(digest, [sequence]);
    }
    let next: string | null | undefined;
    for (const digest of groups.keys()) {
      if (next === undefined || this.#lastTurn(digest) < this.#lastTurn(next)) next = digest;
    }
    if (next === undefined) return null;
    // Adapters come and go for as long as the service runs; those without work need no memory of their turns.
    if (this.#lastTurns.size > 2 * groups.size + 16) {
      for (const digest of this.#lastTurns.keys()) if (!groups.has(digest)) this.#lastTurns.delete(digest);
    }
    this.#lastTurns.set(next, ++this.#turn);
    return groups.get(next)!;
  }

  #lastTurn(digest: string | null): number {
    return this.#lastTurns.get(digest) ?? 0;
  }

  /** Plans up to `count` tokens of a sequence, preempting while no cell can be had. @returns the tokens planned */
  #take(sequence: Sequence, count: number, plan: StepPlan): number {
    while (sequence.slot !== null && this.#kv.obtainableTokens === 0) {
      const victim = this.#running.findLast((other) => !other.isRunnable) ?? this.#running.at(-1)!;
      this.#preempt(victim);
      plan.entries = plan.entries.filter((entry) => entry.sequence !== victim);
    }
    if (sequence.slot === null) return 0;
    const taken = Math.min(count, this.#kv.obtainableTokens);
    this.#kv.grow(sequence, taken);
    plan.entries.push({ sequence, count: taken });
    return taken;
  }

  /** Takes the cells of a running sequence; its tokens, text and random numbers stay, and it waits to be computed again. */
  #preempt(victim: Sequence): void {
    this.#kv.release(victim);
    this.#running = this.#running.filter((sequence) => sequence !== victim);
    insertInOrder(this.#waiting, victim);
    this.numPreemptions++;
  }
}

function insertInOrder(list: Sequence[], sequence: Sequence): void {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (list[middle]!.compare(sequence) < 0) low = middle + 1;
    else high = middle;
  }
  list.splice(low, 0, sequence);
}
