import assert from 'node:assert/strict';
import { ActiveRequest } from './active-request.ts';
import { Adapters } from './adapters.ts';
import { promptTokenIds, validateRequest } from './chat.ts';
import type { EngineTemplate, EngineTokenizer } from './chat.ts';
import { resolveEngineLimits } from './engine-limits.ts';
import type { EngineLimits } from './engine-limits.ts';
import type { EngineStats, StepReport } from './engine-stats.ts';
import { EngineError } from './errors.ts';
import type { EngineEvent, GenerateRequest, TokenLogprob } from './generate-request.ts';
import { KvCache } from './kv-cache.ts';
import { LogprobWriter } from './logprobs.ts';
import { KvFullError, StepBatch } from './model-runner.ts';
import type { ModelRunner } from './model-runner.ts';
import { SamplerBuffers, sampleToken } from './sampler.ts';
import { Scheduler } from './scheduler.ts';
import type { StepPlan } from './scheduler.ts';
import { Sequence } from './sequence.ts';

export interface EngineParts {
  runner: ModelRunner;
  tokenizer: EngineTokenizer;
  /** null refuses chat prompts; token ids still work. */
  template: EngineTemplate | null;
  limits?: Partial<EngineLimits>;
  /** Milliseconds, monotonic. Default performance.now. */
  clock?: () => number;
}

/**
 * Many requests over one model: `submit` queues, each `step` computes one batch and sends what it gave. Nothing runs between steps; the
 * caller steps while {@link hasWork}.
 *
 * Every request ends in exactly one `completed` or `failed` event. A request's fault fails that request alone and never throws out of `step`.
 */
export class Engine {
  readonly limits: EngineLimits;
  readonly #runner: ModelRunner;
  readonly #tokenizer: EngineTokenizer;
  readonly #template: EngineTemplate | null;
  readonly #clock: () => number;
  readonly #kv: KvCache;
  readonly #scheduler: Scheduler;
  readonly #adapters: Adapters;
  readonly #requests = new Map<string, ActiveRequest>();
  readonly #batch: StepBatch;
  readonly #buffers: SamplerBuffers;
  readonly #logprobs: LogprobWriter;
  #numArrivals = 0;
  readonly #totals = { numSteps: 0, promptTokens: 0, generatedTokens: 0, computedTokens: 0 };

  constructor({ runner, tokenizer, template, limits = {}, clock = () => performance.now() }: EngineParts) {
    this.limits = resolveEngineLimits(limits, runner);
    this.#runner = runner;
    this.#tokenizer = tokenizer;
    this.#template = template;
    this.#clock = clock;
    this.#kv = new KvCache(runner, this.limits);
    this.#scheduler = new Scheduler(this.#kv, { ...this.limits, batchTokens: runner.batchTokens });
    this.#adapters = new Adapters(runner, this.limits);
    this.#batch = new StepBatch(runner.batchTokens);
    this.#buffers = new SamplerBuffers(runner.vocabSize);
    this.#logprobs = new LogprobWriter(tokenizer);
  }

  /** Queues a request. What is wrong with it is told at once by a `failed` event, never thrown. */
  submit(request: GenerateRequest, emit: (event: EngineEvent) => void): void {
    let active: ActiveRequest;
    try {
      active = this.#accept(request, emit);
    } catch (error) {
      const { code, message, param } = asEngineError(error);
      emit({ kind: 'failed', code, message, param });
      return;
    }
    this.#requests.set(request.requestId, active);
    this.#scheduler.enqueue(
      Array.from({ length: request.n }, (_, index) => new Sequence(active, index, this.#tokenizer)),
    );
  }

  /** Ends a request at the next step with `engine.aborted`; unknown ids are ignored, since it may have ended meanwhile. */
  abort(requestId: string): void {
    const active = this.#requests.get(requestId);
    if (active) active.isAborted = true;
  }

  /** A paused request keeps its place and computes nothing; its cells may be taken for others. Unknown ids are ignored. */
  setPaused(requestId: string, paused: boolean): void {
    const active = this.#requests.get(requestId);
    if (active) active.isPaused = paused;
  }

  /** False when nothing is queued, or all that is queued is paused. */
  get hasWork(): boolean {
    return (
      this.#scheduler.hasWork || this.#requests.values().some((active) => active.isAborted || active.isReceiverLost)
    );
  }

  /** One engine step: choose a batch, run it, sample, send. */
  step(): StepReport {
    const startMs = this.#clock();
    this.#dropAborted();
    this.#admit();
    const plan = this.#scheduler.plan();
    const logits = plan === null ? null : this.#decode(plan); // [numLogits, V]
    const numSampled = plan === null || logits === null ? 0 : this.#settle(plan, logits);
    const numTokens = logits === null ? 0 : this.#batch.length;
    return { numTokens, numSampled, durationMs: this.#clock() - startMs };
  }

  stats(): EngineStats {
    const { waiting, running, numPreemptions, prefixHitTokens, prefixQueryTokens } = this.#scheduler;
    return {
      numRequests: this.#requests.size,
      numRunning: running.length,
      numWaiting: waiting.length,
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
    for (const { owner } of [...this.#scheduler.running, ...this.#scheduler.waiting]) {
      unfinished.set(owner, (unfinished.get(owner) ?? 0) + 1);
    }
    assert.equal(unfinished.size, this.#requests.size, 'every request has a sequence');
    for (const [owner, count] of unfinished) {
      assert.equal(this.#requests.get(owner.id), owner, 'every sequence has a request');
      assert.equal(count, owner.numUnfinishedChoices, `unfinished choices of ${owner.id}`);
      assert(!owner.hasEnded, `${owner.id} has ended`);
    }
  }

  /** Aborts what is in flight and closes adapters and runner. */
  close(): void {
    for (const active of this.#requests.values())
      this.#end(active, new EngineError('engine.aborted', 'the engine was closed'));
    this.#adapters.close();
    this.#runner.close();
  }

  #accept(request: GenerateRequest, emit: (event: EngineEvent) => void): ActiveRequest {
    const { maxRequests, maxContextTokens } = this.limits;
    if (this.#requests.size >= maxRequests) {
      throw new EngineError(
        'engine.overloaded',
        `at most ${maxRequests} requests may be in flight, and there are ${this.#requests.size}: try again later`,
      );
    }
    if (this.#requests.has(request.requestId)) {
      throw new EngineError('engine.invalid_request', `request id ${request.requestId} is in flight already`, {
        param: 'requestId',
      });
    }
    validateRequest(request, this.#runner.vocabSize);
    const promptIds = promptTokenIds(request, this.#tokenizer, this.#template, maxContextTokens);
    const maxTokens = Math.min(request.maxTokens ?? Infinity, maxContextTokens - promptIds.length);
    return new ActiveRequest(request, this.#numArrivals++, promptIds, { maxTokens }, emit);
  }

  #dropAborted(): void {
    for (const active of this.#requests.values()) {
      if (active.isAborted) this.#end(active, new EngineError('engine.aborted', 'the request was aborted'));
      else if (active.isReceiverLost)
        this.#end(active, new EngineError('engine.aborted', 'nobody receives its events any more'));
    }
  }

  #admit(): void {
    const admitted = this.#scheduler.admit((owner) => this.#loadAdapter(owner));
    for (const { owner, numComputed } of admitted) {
      if (!owner.isStarted) this.#totals.promptTokens += owner.promptIds.length;
      owner.start(numComputed);
    }
  }

  #loadAdapter(owner: ActiveRequest): boolean {
    const reference = owner.request.adapter;
    if (reference === null || owner.adapter !== null) return true;
    try {
      owner.adapter = this.#adapters.pin(reference);
      return true;
    } catch (error) {
      this.#end(owner, asEngineError(error));
      return false;
    }
  }

  /** Runs the plan. When the runner has fewer cells than the ledger believed, sequences give way until it fits. null = nothing ran. */
  #decode(plan: StepPlan): Float32Array | null {
    while (plan.entries.length > 0) {
      this.#fillBatch(plan);
      try {
        return this.#runner.run(this.#batch);
      } catch (error) {
        if (error instanceof KvFullError && this.#scheduler.yieldCells(plan)) continue;
        const message = error instanceof Error ? error.message : String(error);
        const failure = new EngineError('engine.internal', `the model could not compute this batch: ${message}`, {
          cause: error,
        });
        for (const owner of new Set(plan.entries.map(({ sequence }) => sequence.owner))) this.#end(owner, failure);
        return null;
      }
    }
    return null;
  }

  #fillBatch(plan: StepPlan): void {
    const batch = this.#batch;
    batch.clear(plan.entries[0]!.sequence.owner.adapter);
    for (const { sequence, count } of plan.entries) {
      const { tokens, numComputed, slot } = sequence;
      for (let position = numComputed; position < numComputed + count; position++) {
        batch.add(tokens[position]!, position, slot!, position === tokens.length - 1);
      }
    }
  }

  /** Books the computed tokens, samples where a row of logits came back, sends the deltas. @returns tokens sampled */
  #settle(plan: StepPlan, logits: Float32Array): number {
    const { vocabSize } = this.#runner;
    this.#totals.numSteps++;
    this.#totals.computedTokens += this.#batch.length;
    // All are booked before any is sampled: a request that fails half-way must not leave others' cells uncounted.
    for (const { sequence, count } of plan.entries) sequence.numComputed += count;
    const sampled = plan.entries.map(({ sequence }) => sequence).filter(({ numRemaining }) => numRemaining === 0);
    for (const [row, sequence] of sampled.entries()) {
      // A choice that failed took its siblings with it; their rows go unread.
      if (sequence.owner.hasEnded) continue;
      this.#sample(sequence, logits.subarray(row * vocabSize, (row + 1) * vocabSize));
    }
    return sampled.length;
  }

  #sample(sequence: Sequence, row: Float32Array): void {
    const { owner, index, adjustments } = sequence;
    const { sampling, logprobs: numTop } = owner.request;
    const uniform = sampling.temperature === 0 ? 0 : sequence.random.uniform();
    const { token, logSumExp } = sampleToken(row, sampling, adjustments, uniform, numTop !== null, this.#buffers);
    if (token < 0) {
      this.#end(
        owner,
        new EngineError('engine.internal', 'no token is possible: all are masked, or the logits are not numbers'),
      );
      return;
    }
    const logprobs: TokenLogprob[] | null =
      numTop === null ? null : [this.#logprobs.entry(row, token, logSumExp, numTop, this.#buffers)];
    sequence.append(token);
    owner.usage.completionTokens++;
    this.#totals.generatedTokens++;
    const { text, finish } = sequence.stopDetector.push(token);
    if (finish === null) {
      owner.send({ kind: 'delta', index, text, tokenIds: [token], logprobs });
      return;
    }
    this.#scheduler.finish(sequence, true);
    owner.send({
      kind: 'finished',
      index,
      text,
      tokenIds: [token],
      logprobs,
      finishReason: finish.reason,
      stopReason: finish.stopReason,
    });
    if (--owner.numUnfinishedChoices === 0) this.#end(owner, null);
  }

  /** The only end of a request: cells, adapter and name come back, then the last event goes out. */
  #end(owner: ActiveRequest, failure: EngineError | null): void {
    this.#scheduler.drop(owner, failure?.code === 'engine.aborted');
    if (owner.adapter !== null) this.#adapters.unpin(owner.adapterDigest!);
    owner.adapter = null;
    this.#requests.delete(owner.id);
    if (failure === null) owner.complete();
    else owner.fail(failure.code, failure.message, failure.param);
  }
}

function asEngineError(error: unknown): EngineError {
  if (error instanceof EngineError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new EngineError('engine.internal', message, { cause: error });
}
