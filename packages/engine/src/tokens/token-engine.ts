import assert from 'node:assert/strict';
import { type EngineLimits, resolveEngineLimits } from '../batching/engine-limits.ts';
import { KvCache } from '../batching/kv-cache.ts';
import { Scheduler, type StepPlan } from '../batching/scheduler.ts';
import type {
  AdapterRef,
  EndTokens,
  EngineStats,
  LoadedVersion,
  LocalTokens,
  StepReport,
  TokenDescription,
  TokenSubmission,
  TokenTexts,
} from '@trainyard/backend';
import { asEngineError, EngineError } from '@trainyard/backend';
import { Adapters } from '../runner/adapters.ts';
import { KvFullError, StepBatch } from '../runner/model-runner.ts';
import type { DrawnRows, Eventually, LogitRows, ModelRunner, RowDraw } from '../runner/model-runner.ts';
import { LogprobWriter, rankTokens } from '../sampling/logprobs.ts';
import { SamplerBuffers } from '../sampling/sampler.ts';
import { ActiveRequest } from './active-request.ts';
import { Beam, BeamSearch } from './beam-search.ts';
import { Choice } from './choice.ts';
import { ChoiceSampler, type SampledToken } from './choice-sampler.ts';

/**
 * Rounds in which a request queues if its choices alone fill the engine, see {@link Sequence.round}: 8 of 128
 * choices each.
 */
const ROUNDS = 16;

export interface TokenEngineParts {
  runner: ModelRunner;
  ends: EndTokens;
  /** Texts of tokens for logprobs entries. Default null: entries have only ids. */
  texts?: TokenTexts | null;
  limits?: Partial<EngineLimits>;
  /** Monotonic clock, milliseconds. Default performance.now. */
  clock?: () => number;
  /** True if another thread of this process waits for a core, see {@link StepBatch.leavesCore}. Default: never. */
  leavesCore?: () => boolean;
}

const ENGINE_CLOSED = 'the engine was closed';

type EnginePlan = StepPlan<Choice | Beam>;
/** Has `token` if some were drawn. */
type ComputedRows = LogitRows & Partial<DrawnRows>;

/**
 * Token half of the engine. `submit` queues, each `step` computes one batch and sends its events; nothing runs
 * between steps. Text handling comes with the request.
 *
 * Every request ends in exactly one `completed` or `failed` event. A request's fault fails only that request and
 * never throws out of `step`.
 */
export class TokenEngine implements LocalTokens {
  readonly limits: EngineLimits;
  readonly #runner: ModelRunner;
  readonly #ends: EndTokens;
  readonly #leavesCore: () => boolean;
  readonly #clock: () => number;
  readonly #kv: KvCache;
  readonly #scheduler: Scheduler<Choice | Beam>;
  readonly #adapters: Adapters;
  readonly #requests = new Map<string, ActiveRequest>();
  readonly #leaving = new Map<ActiveRequest, EngineError>();
  readonly #batch: StepBatch;
  /** Sequence of each of the batch's rows; rows of prompt positions are scored, the others sampled from. */
  #rows: { sequence: Choice | Beam; isPrompt: boolean; draw: RowDraw | null }[] = [];
  #isStepping = false;
  #isClosed = false;
  readonly #buffers: SamplerBuffers;
  readonly #logprobs: LogprobWriter;
  readonly #sampler: ChoiceSampler;
  readonly #totals = { numSteps: 0, promptTokens: 0, generatedTokens: 0, computedTokens: 0 };

  constructor(parts: TokenEngineParts) {
    const { runner, limits = {} } = parts;
    this.limits = resolveEngineLimits(limits, runner);
    this.#runner = runner;
    this.#ends = parts.ends;
    this.#clock = parts.clock ?? (() => performance.now());
    this.#leavesCore = parts.leavesCore ?? (() => false);
    this.#kv = new KvCache(runner, this.limits);
    this.#scheduler = new Scheduler(this.#kv, {
      ...this.limits,
      batchTokens: runner.batchTokens,
      adaptersPerBatch: runner.adaptersPerBatch,
    });
    this.#adapters = new Adapters(runner, this.limits);
    this.#batch = new StepBatch(runner.batchTokens);
    this.#buffers = new SamplerBuffers(runner.vocabSize);
    this.#logprobs = new LogprobWriter(parts.texts ?? null);
    this.#sampler = new ChoiceSampler(runner.vocabSize, this.#buffers, this.#logprobs);
  }

  get vocabSize(): number {
    return this.#runner.vocabSize;
  }
  get size(): number {
    return this.#requests.size;
  }
  has(requestId: string): boolean {
    return this.#requests.has(requestId);
  }

  submit(submission: TokenSubmission): void {
    const { request, promptIds, arrival, isPaused, banned, text, reportsDraws } = submission;
    const { maxContextTokens, maxRunning } = this.limits;
    const active = new ActiveRequest(
      request,
      {
        arrival,
        promptIds,
        choicesPerRound: Math.max(1, Math.floor(maxRunning / ROUNDS)),
        maxTokens: Math.min(request.maxTokens ?? Infinity, maxContextTokens - promptIds.length),
        ends: this.#ends,
        banned,
        text,
        reportsDraws,
      },
      submission.emit,
    );
    active.isPaused = isPaused;
    this.#requests.set(active.id, active);
    active.onReceiverLost = () => this.#leaving.set(active, new EngineError('engine.aborted', 'its client has left'));
    if (request.beamSearch !== null) {
      const { liveBeams } = new BeamSearch(active);
      this.#scheduler.add(active, liveBeams.length, (index) => liveBeams[index]!);
    } else this.#scheduler.add(active, request.n, (index) => new Choice(active, index));
    // Load now: the resolved adapter may be deleted while the request waits.
    this.#loadAdapter(active);
  }

  /** Ends a request at the next step with `engine.aborted`. @returns false if it is not in flight */
  abort(requestId: string): boolean {
    const active = this.#requests.get(requestId);
    if (active !== undefined) this.#leaving.set(active, new EngineError('engine.aborted', 'the request was aborted'));
    return active !== undefined;
  }

  /**
   * A paused request keeps its place and computes nothing; others may take its cells.
   *
   * @returns false if it is not in flight
   */
  setPaused(requestId: string, isPaused: boolean): boolean {
    const active = this.#requests.get(requestId);
    if (active === undefined) return false;
    active.isPaused = isPaused;
    this.#scheduler.refresh(active);
    return true;
  }

  /**
   * Loads an adapter ahead; without room its first request loads it.
   *
   * @throws {EngineError} engine.adapter_unreadable, engine.adapter_damaged
   */
  async publish(adapter: AdapterRef): Promise<null> {
    if (!this.#isClosed) this.#adapters.loadAhead(adapter);
    return null;
  }

  get adapters(): readonly LoadedVersion[] {
    return this.#adapters.present;
  }

  retire(digest: string): void {
    this.#adapters.retire(digest);
  }

  /** False if nothing is queued or everything queued is paused. */
  get hasWork(): boolean {
    return this.#leaving.size > 0 || this.#scheduler.hasWork;
  }

  /** Ends requests that were aborted or lost their receivers; `step` does so too. */
  endLeaving(): void {
    for (const [active, reason] of this.#leaving) this.#end(active, reason);
  }

  /**
   * Synchronous if the runner is; otherwise the next step waits for this one, and requests may be submitted,
   * aborted and paused meanwhile.
   */
  step(): Eventually<StepReport> {
    if (this.#isStepping) throw new Error('the step before has not ended');
    const startMs = this.#clock();
    this.endLeaving();
    this.#admit();
    const plan = this.#scheduler.plan();
    const rows = plan === null ? null : this.#compute(plan);
    if (!(rows instanceof Promise)) return this.#finishStep(plan, rows, startMs);
    this.#isStepping = true;
    return rows.then((computed) => this.#finishStep(plan, computed, startMs)).finally(() => this.#endStepping());
  }

  #finishStep(plan: EnginePlan | null, rows: ComputedRows | null, startMs: number): StepReport {
    const numSampled = plan === null || rows === null ? 0 : this.#settle(plan, rows);
    const numTokens = rows === null ? 0 : this.#batch.length;
    return { numTokens, numSampled, durationMs: this.#clock() - startMs };
  }

  #endStepping(): void {
    this.#isStepping = false;
    if (this.#isClosed) this.#closeRunner();
  }

  stats(): EngineStats {
    const { numWaiting, numRunning, numPreemptions, prefixHitTokens, prefixQueryTokens, numLooks } = this.#scheduler;
    return {
      numRequests: this.#requests.size,
      numUnprepared: 0,
      numRunning,
      numWaiting,
      numLooks,
      usedTokens: this.#kv.usedTokens,
      cachedTokens: this.#kv.cachedTokens,
      capacityTokens: this.#kv.capacityTokens,
      prefixHitTokens,
      prefixQueryTokens,
      numPreemptions,
      numAdapters: this.#adapters.count,
      adapterBytes: this.#adapters.sizeBytes,
      ...this.#totals,
    };
  }

  /** @throws AssertionError if the counts disagree. Call between steps. */
  checkIntegrity(): void {
    this.#scheduler.checkIntegrity();
    const unfinished = new Map<ActiveRequest, number>();
    for (const { owner } of this.#scheduler.running()) unfinished.set(owner, (unfinished.get(owner) ?? 0) + 1);
    let numWaiting = 0;
    for (const active of this.#requests.values()) {
      const count = this.#scheduler.numWaitingOf(active);
      numWaiting += count;
      if (count > 0) unfinished.set(active, (unfinished.get(active) ?? 0) + count);
    }
    assert.equal(numWaiting, this.#scheduler.numWaiting, 'waiting sequences');
    assert.equal(unfinished.size, this.#requests.size, 'every request has a sequence');
    for (const [owner, count] of unfinished) {
      assert.equal(this.#requests.get(owner.id), owner, 'every sequence has a request');
      assert.equal(count, owner.numUnfinished, `unfinished sequences of ${owner.id}`);
      assert(!owner.hasEnded, `${owner.id} has ended`);
    }
  }

  /** Aborts requests in flight and closes adapters and runner, after a step in progress. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (!this.#isStepping) this.#closeRunner();
  }

  #closeRunner(): void {
    for (const active of this.#requests.values()) this.#end(active, new EngineError('engine.aborted', ENGINE_CLOSED));
    this.#adapters.close();
    this.#runner.close();
  }

  #admit(): void {
    const admitted = this.#scheduler.admit();
    for (const { owner, numComputed } of admitted) {
      if (!owner.isStarted) this.#totals.promptTokens += owner.promptIds.length;
      owner.start(numComputed);
      owner.emitPromptScores(this.#describe); // a prompt of one token has nothing to compute
    }
  }

  #loadAdapter(owner: ActiveRequest): void {
    const reference = owner.request.adapter;
    if (reference === null) return;
    try {
      owner.adapter = this.#adapters.pin(reference);
    } catch (error) {
      this.#end(owner, asEngineError(error));
    }
  }

  /**
   * If the runner has fewer cells than the ledger counted, sequences give way until the plan fits. null = nothing
   * ran.
   */
  #compute(plan: EnginePlan): Eventually<ComputedRows | null> {
    this.#fillBatch(plan);
    const draws = this.#rows.map(({ draw }) => draw);
    const drawsThere = draws.some((draw) => draw !== null);
    try {
      const rows = drawsThere ? this.#runner.runAndDraw!(this.#batch, draws) : this.#runner.run(this.#batch);
      return rows instanceof Promise ? rows.catch((error: unknown) => this.#recover(plan, error)) : rows;
    } catch (error) {
      return this.#recover(plan, error);
    }
  }

  #recover(plan: EnginePlan, error: unknown): Eventually<ComputedRows | null> {
    if (this.#isClosed) return null; // close ends all requests
    if (error instanceof KvFullError && this.#scheduler.yieldCells(plan))
      return plan.entries.length === 0 ? null : this.#compute(plan);
    const message = error instanceof Error ? error.message : String(error);
    const failure = new EngineError('engine.internal', `the model failed to compute this batch: ${message}`, {
      cause: error,
    });
    for (const owner of new Set(plan.entries.map(({ sequence }) => sequence.owner))) this.#end(owner, failure);
    return null;
  }

  #fillBatch(plan: EnginePlan): void {
    const batch = this.#batch;
    batch.clear();
    batch.leavesCore = this.#leavesCore();
    this.#rows = [];
    for (const { sequence, count } of plan.entries) {
      batch.isReproducible ||= sequence.owner.isReproducible;
      const { tokens, numComputed, slot } = sequence;
      for (let position = numComputed; position < numComputed + count; position++) {
        const wantsLogits = sequence.wantsLogitsAt(position);
        batch.add({ token: tokens[position]!, position, sequence: slot!, wantsLogits }, sequence.owner.adapter);
        if (!wantsLogits) continue;
        const isPrompt = position < tokens.length - 1;
        this.#rows.push({ sequence, isPrompt, draw: isPrompt ? null : this.#drawOf(sequence) });
      }
    }
  }

  #drawOf(sequence: Choice | Beam): RowDraw | null {
    if (this.#runner.runAndDraw === undefined || sequence instanceof Beam) return null;
    return this.#sampler.drawOf(sequence);
  }

  /** @returns the number of tokens sampled */
  #settle(plan: EnginePlan, rows: ComputedRows): number {
    this.#totals.numSteps++;
    this.#totals.computedTokens += this.#batch.length;
    // Record all before sampling: a request that fails in between must not leave others' cells uncounted.
    for (const { sequence, count } of plan.entries) sequence.numComputed += count;
    let numSampled = 0;
    for (const [index, { sequence, isPrompt, draw }] of this.#rows.entries()) {
      // A failed sequence ended its siblings; skip their rows.
      if (sequence.owner.hasEnded) continue;
      if (!isPrompt) numSampled++;
      try {
        if (isPrompt) this.#score(sequence.owner, rows.row(index));
        else if (sequence instanceof Beam) this.#branch(sequence, rows.row(index));
        else if (draw !== null) this.#advance(sequence, this.#sampler.take(sequence, rows.token!(index)));
        else this.#advance(sequence, this.#sampler.next(sequence, rows.row(index)));
      } catch (error) {
        if (!(error instanceof EngineError)) throw error;
        this.#end(sequence.owner, error);
      }
    }
    return numSampled;
  }

  #score(owner: ActiveRequest, row: Float32Array): void {
    owner.promptScorer!.score(row, this.#logprobs, this.#buffers);
    owner.emitPromptScores(this.#describe);
  }

  readonly #describe = (id: number): TokenDescription => this.#logprobs.descriptionOf(id);

  #advance(choice: Choice, { token, logprobs, verdict }: SampledToken): void {
    const { owner, index } = choice;
    const { text, finish } = verdict;
    owner.usage.completionTokens++;
    this.#totals.generatedTokens++;
    const draw = owner.reportsDraws && choice.tracer !== null ? { draw: choice.tracer.last } : null;
    if (finish === null) {
      owner.send({ kind: 'delta', index, text, tokenIds: [token], logprobs, ...draw });
      return;
    }
    this.#scheduler.finish(choice, true);
    const { sampling } = choice;
    owner.send({
      kind: 'finished',
      index,
      text,
      tokenIds: [token],
      logprobs,
      ...draw,
      ...(sampling === undefined ? {} : { sampling }),
      finishReason: finish.reason,
      stopReason: finish.stopReason,
    });
    if (--owner.numUnfinished === 0) this.#end(owner, null);
  }

  /** The last beam of a round advances all. */
  #branch(beam: Beam, row: Float32Array): void {
    const { owner, search } = beam;
    const turnover = search.receive(beam, rankTokens(row, search.numRanked, this.#buffers));
    if (turnover === null) return;
    this.#scheduler.refresh(owner); // beams preempted meanwhile can continue
    this.#totals.generatedTokens += search.liveBeams.length;
    owner.numUnfinished = search.liveBeams.length;
    for (const dropped of turnover.dropped) this.#scheduler.finish(dropped, false);
    if (!search.isFinished) {
      this.#scheduler.enqueue(turnover.added);
      return;
    }
    // One of them keeps the prompt in the cache for later requests.
    if (search.liveBeams[0] !== undefined) this.#scheduler.finish(search.liveBeams[0], true);
    search.report(this.#logprobs);
    this.#end(owner, null);
  }

  /** The only end of a request: releases cells and adapter, then sends the last event. */
  #end(owner: ActiveRequest, failure: EngineError | null): void {
    this.#scheduler.drop(owner, failure?.code === 'engine.aborted');
    if (owner.adapter !== null) this.#adapters.unpin(owner.adapterDigest!);
    owner.adapter = null;
    owner.text?.close();
    this.#requests.delete(owner.id);
    this.#leaving.delete(owner);
    if (failure === null) owner.complete();
    else owner.fail(failure);
  }
}
