import assert from 'node:assert/strict';
import type { ToolFormat } from '@trainyard/tokenizer';
import type { ActiveRequest } from './requests/active-request.ts';
import { Adapters } from './runner/adapters.ts';
import { Beam } from './requests/beam-search.ts';
import type { EngineTokenizer } from './contract/engine-tokenizer.ts';
import type { EngineTemplate, TemplateSandbox } from './prompt/chat.ts';
import type { Choice } from './requests/choice.ts';
import { ChoiceSampler, type SampledToken } from './requests/choice-sampler.ts';
import { closeMatcher } from './reply/constraint.ts';
import type { ConstraintCompiler } from './reply/constraint.ts';
import { resolveEngineLimits } from './batching/engine-limits.ts';
import type { EngineLimits } from './batching/engine-limits.ts';
import type { EngineStats, StepReport } from './contract/engine-stats.ts';
import { asEngineError, EngineError } from './contract/errors.ts';
import type { EngineEvent, GenerateRequest, TokenFace } from './contract/generate-request.ts';
import { Intake } from './requests/intake.ts';
import { KvCache } from './batching/kv-cache.ts';
import { LogprobWriter, rankTokens } from './sampling/logprobs.ts';
import { KvFullError, StepBatch } from './runner/model-runner.ts';
import type { DrawnRows, Eventually, LogitRows, ModelRunner, RowDraw } from './runner/model-runner.ts';
import type { PromptBorders } from './prompt/prompt.ts';
import { SamplerBuffers } from './sampling/sampler.ts';
import { Scheduler } from './batching/scheduler.ts';
import type { SchedulingPolicy } from './contract/scheduling-policy.ts';
import type { StepPlan } from './batching/scheduler.ts';

export interface EngineParts {
  runner: ModelRunner;
  tokenizer: EngineTokenizer;
  /** null refuses chat prompts; token ids still work. */
  template: EngineTemplate | null;
  /** Runs templates that come with a request. Default: such requests are refused. */
  templateSandbox?: TemplateSandbox | null;
  /** What `addSpecialTokens` adds. Default: nothing. */
  borders?: PromptBorders;
  /** How models write calls of tools, whatever their templates say. Default null: as the template says. */
  toolFormat?: ToolFormat | null;
  /** Compiles constraints. Default: requests with one are refused. */
  constraints?: ConstraintCompiler;
  /** Default `priority`. `fcfs` refuses requests that ask for another priority than 0. */
  policy?: SchedulingPolicy;
  limits?: Partial<EngineLimits>;
  /** Milliseconds, monotonic. Default performance.now. */
  clock?: () => number;
}

const CLOSED = 'the engine was closed';

type EnginePlan = StepPlan<Choice | Beam>;
/** With `token` where some were drawn. */
type ComputedRows = LogitRows & Partial<DrawnRows>;

/**
 * Many requests over one model: `submit` queues, each `step` computes one batch and sends what it gave. Nothing runs between steps but
 * prompts that are made elsewhere; the caller steps while {@link hasWork}, and again when {@link onWork} is called.
 *
 * Every request ends in exactly one `completed` or `failed` event. A request's fault fails that request alone and never throws out of `step`.
 */
export class Engine {
  readonly limits: EngineLimits;
  /** Called when work appears by itself: a prompt that was made elsewhere is ready. */
  onWork: () => void = () => {};
  readonly #runner: ModelRunner;
  readonly #intake: Intake;
  readonly #constraints: ConstraintCompiler | null;
  readonly #clock: () => number;
  readonly #kv: KvCache;
  readonly #scheduler: Scheduler<Choice | Beam>;
  readonly #adapters: Adapters;
  readonly #requests = new Map<string, ActiveRequest>();
  /** Of them, those that the next step ends, and why. */
  readonly #leaving = new Map<ActiveRequest, EngineError>();
  readonly #batch: StepBatch;
  /** Whose logits the batch's rows are; those of a prompt's position are scored, the others continued from. */
  #rows: { sequence: Choice | Beam; isPrompt: boolean; draw: RowDraw | null }[] = [];
  #isStepping = false;
  #isClosed = false;
  readonly #buffers: SamplerBuffers;
  readonly #logprobs: LogprobWriter;
  readonly #sampler: ChoiceSampler;
  readonly #totals = { numSteps: 0, promptTokens: 0, generatedTokens: 0, computedTokens: 0 };

  constructor(parts: EngineParts) {
    const { runner, tokenizer, limits = {} } = parts;
    this.limits = resolveEngineLimits(limits, runner);
    this.#runner = runner;
    this.#constraints = parts.constraints ?? null;
    this.#intake = new Intake({
      prompt: {
        tokenizer,
        template: parts.template,
        templateSandbox: parts.templateSandbox ?? null,
        borders: parts.borders ?? { before: [], after: [] },
        toolFormat: parts.toolFormat ?? null,
      },
      constraints: parts.constraints ?? null,
      policy: parts.policy ?? 'priority',
      vocabSize: runner.vocabSize,
      limits: this.limits,
      inFlight: this.#requests,
      admit: (active, numChoices, make) => {
        this.#requests.set(active.id, active);
        active.onReceiverLost = () =>
          this.#leaving.set(active, new EngineError('engine.aborted', 'nobody receives its events any more'));
        this.#scheduler.add(active, numChoices, make);
        // Read now rather than when its turn comes: what it was resolved to may be deleted while it waits.
        this.#loadAdapter(active);
      },
    });
    this.#clock = parts.clock ?? (() => performance.now());
    this.#kv = new KvCache(runner, this.limits);
    this.#scheduler = new Scheduler(this.#kv, {
      ...this.limits,
      batchTokens: runner.batchTokens,
      adaptersPerBatch: runner.adaptersPerBatch,
    });
    this.#adapters = new Adapters(runner, this.limits);
    this.#batch = new StepBatch(runner.batchTokens);
    this.#buffers = new SamplerBuffers(runner.vocabSize);
    this.#logprobs = new LogprobWriter(tokenizer);
    this.#sampler = new ChoiceSampler(tokenizer, runner.vocabSize, this.#buffers, this.#logprobs);
  }

  /** Queues a request. What is wrong with it is told at once by a `failed` event, never thrown. */
  submit(request: GenerateRequest, emit: (event: EngineEvent) => void): void {
    this.#intake.submit(request, emit, () => this.onWork());
  }

  /** Ends a request at the next step with `engine.aborted`; unknown ids are ignored, since it may have ended meanwhile. */
  abort(requestId: string): void {
    const active = this.#requests.get(requestId);
    if (active === undefined) this.#intake.abort(requestId);
    else this.#leaving.set(active, new EngineError('engine.aborted', 'the request was aborted'));
  }

  /** A paused request keeps its place and computes nothing; its cells may be taken for others. Unknown ids are ignored. */
  setPaused(requestId: string, paused: boolean): void {
    const active = this.#requests.get(requestId);
    if (active === undefined) {
      this.#intake.setPaused(requestId, paused);
      return;
    }
    active.isPaused = paused;
    this.#scheduler.refresh(active);
  }

  /** False when nothing is queued, or all that is queued is paused or has no prompt yet. */
  get hasWork(): boolean {
    return this.#leaving.size > 0 || this.#intake.hasWork || this.#scheduler.hasWork;
  }

  /** True when requests were submitted faster than their prompts can be made. */
  get hasPromptsToMake(): boolean {
    return this.#intake.hasPromptsToMake;
  }

  /** Makes a few of them; a step does so, too. */
  prepareSome(): void {
    this.#intake.prepareSome();
  }

  /**
   * One engine step: choose a batch, run it, sample, send. At once where the runner answers at once; else the next step waits for this one, and requests may
   * be submitted, aborted and paused meanwhile.
   */
  step(): Eventually<StepReport> {
    if (this.#isStepping) throw new Error('the step before has not ended');
    const startMs = this.#clock();
    this.#endLeaving();
    this.#intake.prepareSome();
    this.#intake.takePrepared();
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
      numRequests: this.#requests.size + this.#intake.size,
      numUnprepared: this.#intake.size,
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

  /** @throws AssertionError when the books disagree. Call between steps. */
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

  /** Aborts what is in flight and closes adapters and runner; where a step has not ended, as soon as it has. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#intake.close(new EngineError('engine.aborted', CLOSED));
    if (!this.#isStepping) this.#closeRunner();
  }

  #closeRunner(): void {
    for (const active of this.#requests.values()) this.#end(active, new EngineError('engine.aborted', CLOSED));
    this.#adapters.close();
    this.#runner.close();
  }

  #endLeaving(): void {
    for (const [active, reason] of this.#leaving) this.#end(active, reason);
  }

  #admit(): void {
    const admitted = this.#scheduler.admit();
    for (const { owner, numComputed } of admitted) {
      if (!owner.isStarted) this.#totals.promptTokens += owner.promptIds.length;
      owner.start(numComputed);
      owner.tellScores(this.#describe); // of one token there is nothing to compute
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

  /** Runs the plan. When the runner has fewer cells than the ledger believed, sequences give way until it fits. null = nothing ran. */
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
    if (this.#isClosed) return null; // which ends them all
    if (error instanceof KvFullError && this.#scheduler.yieldCells(plan))
      return plan.entries.length === 0 ? null : this.#compute(plan);
    const message = error instanceof Error ? error.message : String(error);
    const failure = new EngineError('engine.internal', `the model could not compute this batch: ${message}`, {
      cause: error,
    });
    for (const owner of new Set(plan.entries.map(({ sequence }) => sequence.owner))) this.#end(owner, failure);
    return null;
  }

  #fillBatch(plan: EnginePlan): void {
    const batch = this.#batch;
    batch.clear();
    batch.leavesCore = this.#constraints?.isCompiling ?? false;
    this.#rows = [];
    for (const { sequence, count } of plan.entries) {
      batch.isReproducible ||= sequence.owner.isReproducible;
      const { tokens, numComputed, slot } = sequence;
      for (let position = numComputed; position < numComputed + count; position++) {
        const wantsLogits = sequence.wantsLogitsAt(position);
        batch.add(tokens[position]!, position, slot!, wantsLogits, sequence.owner.adapter);
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

  /** Books the computed tokens, then goes on from each row of logits. @returns tokens sampled */
  #settle(plan: EnginePlan, rows: ComputedRows): number {
    this.#totals.numSteps++;
    this.#totals.computedTokens += this.#batch.length;
    // All are booked before any is sampled: a request that fails half-way must not leave others' cells uncounted.
    for (const { sequence, count } of plan.entries) sequence.numComputed += count;
    let numSampled = 0;
    for (const [index, { sequence, isPrompt, draw }] of this.#rows.entries()) {
      // A sequence that failed took its siblings with it; their rows go unread.
      if (sequence.owner.hasEnded) continue;
      if (!isPrompt) numSampled++;
      try {
        if (isPrompt) this.#score(sequence.owner, rows.row(index));
        else if (sequence instanceof Beam) this.#branch(sequence, rows.row(index));
        else if (draw !== null) this.#goOn(sequence, this.#sampler.take(sequence, rows.token!(index)));
        else this.#goOn(sequence, this.#sampler.next(sequence, rows.row(index)));
      } catch (error) {
        if (!(error instanceof EngineError)) throw error;
        this.#end(sequence.owner, error);
      }
    }
    return numSampled;
  }

  #score(owner: ActiveRequest, row: Float32Array): void {
    owner.promptScorer!.score(row, this.#logprobs, this.#buffers);
    owner.tellScores(this.#describe);
  }

  readonly #describe = (id: number): TokenFace => this.#logprobs.faceOf(id);

  #goOn(choice: Choice, { token, logprobs, verdict }: SampledToken): void {
    const { owner, index } = choice;
    const { text, finish } = verdict;
    owner.usage.completionTokens++;
    this.#totals.generatedTokens++;
    if (finish === null) {
      owner.send({ kind: 'delta', index, text, tokenIds: [token], logprobs });
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
      ...(sampling === undefined ? {} : { sampling }),
      finishReason: finish.reason,
      stopReason: finish.stopReason,
    });
    if (--owner.numUnfinished === 0) this.#end(owner, null);
  }

  /** Gives a beam the likeliest tokens of its row; with the last beam of a round all go on. */
  #branch(beam: Beam, row: Float32Array): void {
    const { owner, search } = beam;
    const turnover = search.receive(beam, rankTokens(row, search.numRanked, this.#buffers));
    if (turnover === null) return;
    this.#scheduler.refresh(owner); // beams that were preempted meanwhile can go on
    this.#totals.generatedTokens += search.liveBeams.length;
    owner.numUnfinished = search.liveBeams.length;
    for (const dropped of turnover.dropped) this.#scheduler.finish(dropped, false);
    if (!search.isFinished) {
      this.#scheduler.enqueue(turnover.added);
      return;
    }
    // One of them keeps the prompt in the cache for what comes next.
    if (search.liveBeams[0] !== undefined) this.#scheduler.finish(search.liveBeams[0], true);
    search.report(this.#logprobs);
    this.#end(owner, null);
  }

  /** The only end of a request: cells, adapter and name come back, then the last event goes out. */
  #end(owner: ActiveRequest, failure: EngineError | null): void {
    this.#scheduler.drop(owner, failure?.code === 'engine.aborted');
    if (owner.adapter !== null) this.#adapters.unpin(owner.adapterDigest!);
    owner.adapter = null;
    if (owner.constraint !== null) closeMatcher(owner.constraint.matcher);
    this.#requests.delete(owner.id);
    this.#leaving.delete(owner);
    if (failure === null) owner.complete();
    else owner.fail(failure.code, failure.message, failure.param);
  }
}
