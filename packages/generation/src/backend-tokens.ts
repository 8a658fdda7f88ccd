import {
  type AdapterRef,
  asEngineError,
  checkFeatures,
  type ChoiceText,
  type EndTokens,
  EngineError,
  type EngineErrorCode,
  type EngineStats,
  type LocalTokens,
  type SampledEntry,
  type SampledTokens,
  type SampledLogprob,
  type SampleLimits,
  type SampleOutput,
  type SampleParams,
  type SampleRequest,
  type SampleTotals,
  samplingChangesOf,
  type ScoredTokens,
  type StepReport,
  refusal,
  toFailure,
  type TokenBackend,
  TokenDescriptions,
  type TokenLogprob,
  type TokenSubmission,
  type TokenTexts,
  whyNoToken,
} from '@trainyard/backend';
import { type ChoiceSampling, naming, renameFields } from '@trainyard/protocol/fields';
import { DrawnTokens } from './drawn-tokens.ts';
import { Publications } from './publications.ts';

/**
 * Adapts any {@link TokenBackend} to the token interface of the text half. If the back end does not ask for
 * the text, its tokens are read here: they are decoded, and a choice that ends at a stop string is abandoned,
 * its further tokens unread.
 *
 * It needs no steps: output of the back end is sent as it arrives.
 */
export class BackendTokens implements LocalTokens {
  readonly limits: SampleLimits;
  readonly vocabSize: number;
  readonly hasWork = false;
  readonly #backend: TokenBackend;
  readonly #ends: EndTokens;
  readonly #descriptions: TokenDescriptions;
  readonly #publications: Publications;
  readonly #readings = new Map<string, Reading>();
  #generatedTokens = 0;
  #promptTokens = 0;

  /**
   * @param backend started, and serving one model; stays the caller's
   * @param vocabulary the texts of the model's tokens, and the tokens that end a reply
   */
  constructor(backend: TokenBackend, vocabulary: TokenTexts & EndTokens) {
    const [model] = backend.models;
    if (model === undefined) throw new Error('the sampling backend serves no model');
    const { maxRequests, maxChoices } = backend.capabilities;
    this.limits = { maxRequests, maxChoices, maxContextTokens: model.contextLength };
    this.vocabSize = model.vocabSize;
    this.#backend = backend;
    this.#publications = new Publications(backend);
    this.#ends = vocabulary;
    this.#descriptions = new TokenDescriptions(vocabulary);
  }

  get size(): number {
    return this.#readings.size;
  }
  has(requestId: string): boolean {
    return this.#readings.has(requestId);
  }

  submit(submission: TokenSubmission): void {
    const { requestId } = submission.request;
    const { asksText } = this.#backend.capabilities;
    const parts = { faces: this.#descriptions, vocabSize: this.vocabSize, asksText };
    const reading = new Reading(submission, parts);
    this.#readings.set(requestId, reading);
    void this.#run(reading).finally(() => this.#readings.delete(requestId));
  }

  abort(requestId: string): boolean {
    const reading = this.#readings.get(requestId);
    reading?.abort();
    return reading !== undefined;
  }

  setPaused(requestId: string, isPaused: boolean): boolean {
    const reading = this.#readings.get(requestId);
    reading?.setPaused(isPaused);
    return reading !== undefined;
  }

  async publish(adapter: AdapterRef): Promise<string | null> {
    const held = this.#publications.hold(adapter);
    try {
      return await held.ready;
    } finally {
      held.release();
    }
  }

  retire(digest: string): void {
    this.#publications.retire(digest);
  }

  endLeaving(): void {}
  step(): StepReport {
    return { numTokens: 0, numSampled: 0, durationMs: 0 };
  }
  checkIntegrity(): void {}

  /** Returns only the figures known here; the back end reports the rest in its `health`. */
  stats(): EngineStats {
    const unknown = {
      numUnprepared: 0,
      numWaiting: 0,
      numLooks: 0,
      usedTokens: 0,
      cachedTokens: 0,
      capacityTokens: 0,
      prefixHitTokens: 0,
      prefixQueryTokens: 0,
      numPreemptions: 0,
      numAdapters: 0,
      adapterBytes: 0,
      numSteps: 0,
      computedTokens: 0,
    };
    const known = { numRequests: this.size, numRunning: this.size };
    return { ...unknown, ...known, promptTokens: this.#promptTokens, generatedTokens: this.#generatedTokens };
  }

  close(): void {
    for (const reading of this.#readings.values()) reading.abort();
  }

  async #run(reading: Reading): Promise<void> {
    const { promptIds, request } = reading.submission;
    const adapter = request.adapter && this.#publications.hold(request.adapter);
    try {
      if (adapter !== null) await reading.unlessAborted(adapter.ready);
      const sampled = this.#backend.sample(promptIds, paramsOf(reading.submission, this.#backend), reading.signal);
      this.#promptTokens += promptIds.length;
      const totals = await reading.readAll(sampled);
      this.#generatedTokens += totals.completionTokens;
      reading.complete(totals);
    } catch (error) {
      reading.fail(this.#whyItEnded(reading, error));
    } finally {
      adapter?.release();
      reading.close();
    }
  }

  #whyItEnded({ submission, replies }: Reading, error: unknown): unknown {
    const { request, banned, text } = submission;
    if (text === null || !UNEXPLAINED.has(asEngineError(error).code)) return error;
    const facts = { vocabSize: this.vocabSize, ends: this.#ends, banned, text };
    for (const reply of replies.values()) {
      try {
        const why = whyNoToken(reply, request, facts);
        if (why !== null) return why;
      } catch {
        // It has tokens that no mask allowed, and does not report why it ended.
      }
    }
    return error;
  }
}

/**
 * Codes of back ends that may not recognise that masks left no token: some vLLM versions then report an
 * internal error.
 */
const UNEXPLAINED: ReadonlySet<EngineErrorCode> = new Set(['engine.internal', 'engine.host_lost']);

/** @throws {EngineError} engine.invalid_request naming the unsupported field */
function paramsOf({ request, banned, text }: TokenSubmission, backend: TokenBackend): SampleParams {
  const { asksText, constraints } = backend.capabilities;
  const isMasked = text?.isMasking === true && !asksText && request.beamSearch === null;
  const constraint = isMasked ? text.wholeConstraint : null;
  if (isMasked && (constraint === null || !constraints.has(constraint.kind))) {
    throw unenforced(text.maskingField ?? 'constraint', [...constraints]);
  }
  const params: SampleParams = {
    ...tokenFields(request),
    bannedSequences: banned,
    constraint,
    text: asksText ? text : null,
    tracesSampling: request.tracesSampling && backend.capabilities.features.has('tracesSampling'),
  };
  checkFeatures(params, backend.capabilities);
  return params;
}

function unenforced(param: string, kinds: readonly string[]): EngineError {
  const rule =
    kinds.length === 0 || param !== 'constraint'
      ? 'is not supported by this sampling backend: remove it'
      : `is not supported by this sampling backend unless it applies from the start of the reply and is one of ${kinds.join(', ')}: remove it`;
  return refusal(param, naming`${{ field: param }} ${rule}`);
}

/** Omits the text of a request, which a back end does not use. */
function tokenFields(request: SampleRequest): Omit<SampleParams, 'bannedSequences' | 'constraint' | 'text'> {
  return {
    tenant: request.tenant,
    cacheSalt: request.cacheSalt,
    adapter: request.adapter?.digest ?? null,
    priority: request.priority,
    n: request.n,
    sampling: request.sampling,
    maxTokens: request.maxTokens,
    minTokens: request.minTokens,
    stopTokenIds: request.stopTokenIds,
    ignoreEos: request.ignoreEos,
    includeStopString: request.includeStopString,
    logprobs: request.logprobs,
    logprobTokenIds: request.logprobTokenIds,
    logprobsMode: request.logprobsMode,
    promptLogprobs: request.promptLogprobs,
    promptLogprobsFirst: request.promptLogprobsFirst,
    tracesSampling: request.tracesSampling,
    allowedTokenIds: request.allowedTokenIds,
    repetitionDetection: request.repetitionDetection,
    beamSearch: request.beamSearch,
    traceParent: request.traceParent,
  };
}

/** Names in requests with text of fields that token requests name differently. */
const FIELD_OF: Readonly<Record<string, string>> = { bannedSequences: 'badWords', beamSearch: 'useBeamSearch' };

/** One request in progress: converts the back end's output to events with text. */
class Reading {
  readonly submission: TokenSubmission;
  readonly #descriptions: TokenDescriptions;
  readonly #vocabSize: number;
  readonly #isRead: boolean;
  readonly #isMasked: boolean;
  readonly #controller = new AbortController();
  readonly #choices = new Map<number, ChoiceText>();
  readonly #ended = new Set<number>();
  readonly #traces = new Map<number, DrawnTokens>();
  /** Live replies, if several masks are left to a back end that may not report why none is possible. */
  readonly replies = new Map<number, number[]>();
  #resumed: PromiseWithResolvers<void> | null = null;
  #completionTokens = 0;
  #cachedTokens = 0;
  /** Text has ended a choice that the back end would continue. */
  #isCutOff = false;

  /** @param asksText the back end reads the text itself */
  constructor(
    submission: TokenSubmission,
    { faces, vocabSize, asksText }: { faces: TokenDescriptions; vocabSize: number; asksText: boolean },
  ) {
    this.submission = submission;
    this.#vocabSize = vocabSize;
    this.#descriptions = faces;
    this.#isRead = !asksText;
    const { request, banned } = submission;
    this.#isMasked = request.allowedTokenIds !== null || request.minTokens > 0 || banned.length > 0;
    this.setPaused(submission.isPaused);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(): void {
    this.#controller.abort();
    this.setPaused(false);
  }

  /** @throws {EngineError} engine.aborted, at once, if the request is aborted before that */
  async unlessAborted(ready: Promise<unknown>): Promise<void> {
    const aborted = Promise.withResolvers<never>();
    const abort = (): void => aborted.reject(new EngineError('engine.aborted', 'the request was aborted'));
    this.signal.addEventListener('abort', abort, { once: true });
    if (this.signal.aborted) abort();
    await Promise.race([ready, aborted.promise]).finally(() => this.signal.removeEventListener('abort', abort));
  }

  setPaused(isPaused: boolean): void {
    if (isPaused) this.#resumed ??= Promise.withResolvers<void>();
    else {
      this.#resumed?.resolve();
      this.#resumed = null;
    }
  }

  /** Reads until the back end has ended, or until text has ended every choice. */
  async readAll(sampled: AsyncGenerator<SampleOutput, SampleTotals, undefined>): Promise<SampleTotals> {
    const { request, promptIds } = this.submission;
    try {
      // Started at once, even for a paused reader, to keep its place in the queue.
      for (let next = sampled.next(); ; next = sampled.next()) {
        const { done, value } = await next;
        if (done) return { ...value, completionTokens: this.#completionTokens };
        this.#read(value);
        // The prompt's scores arrive with the totals, so wait for them.
        const wantsTotals = request.promptLogprobs !== null && !request.promptLogprobsFirst;
        if (this.#isCutOff && !wantsTotals && this.#ended.size === request.n)
          return {
            promptTokens: promptIds.length,
            completionTokens: this.#completionTokens,
            cachedTokens: this.#cachedTokens,
          };
        await this.#resumed?.promise;
      }
    } finally {
      // Ends it for the back end, too, if it has not ended.
      await sampled.return({ promptTokens: 0, completionTokens: 0, cachedTokens: 0 }).catch(() => undefined);
    }
  }

  complete({ promptLogprobs, ...usage }: SampleTotals): void {
    this.#emit(
      promptLogprobs === undefined
        ? { kind: 'completed', usage }
        : { kind: 'completed', usage, promptLogprobs: this.#scores(promptLogprobs) },
    );
  }

  fail(error: unknown): void {
    const { text, ...failure } = toFailure(error);
    const { param } = failure;
    const fieldOf = (name: string): string => FIELD_OF[name] ?? name;
    this.#emit({
      kind: 'failed',
      ...failure,
      param: param === null ? null : fieldOf(param),
      ...(text === undefined ? {} : { text: renameFields(text, fieldOf) }),
    });
  }

  close(): void {
    for (const choice of this.#choices.values()) choice.close();
    this.submission.text?.close();
  }

  #read(output: SampleOutput): void {
    const { promptIds } = this.submission;
    if (output.kind === 'started') {
      this.#cachedTokens = output.cachedTokens;
      this.#emit({ kind: 'started', promptTokenIds: [...promptIds], cachedTokens: output.cachedTokens });
    } else if (output.kind === 'prompt_scored') {
      const first = this.#descriptions.of(promptIds[0]!);
      this.#emit({ kind: 'prompt_scored', first, promptLogprobs: this.#scores(output.promptLogprobs) });
    } else if (!this.#ended.has(output.index)) this.#advance(output);
  }

  #advance(step: SampledTokens): void {
    const { index, logprobs } = step;
    const read = this.#textOf(step);
    const trace = this.#traceOf(index);
    for (const [at, draw] of step.draws?.slice(0, read.numTokens).entries() ?? []) trace.add(draw, step.tokenIds[at]!);
    this.#completionTokens += read.numTokens;
    if (this.#isRead && this.#isMasked) this.#remember(step);
    const output = {
      index,
      text: read.text,
      tokenIds: step.tokenIds.slice(0, read.numTokens),
      logprobs: logprobs && logprobs.slice(0, read.numTokens).map((entry) => this.#entryOf(entry)),
    };
    if (read.finish === null) {
      this.#emit({ kind: 'delta', ...output });
      return;
    }
    this.#ended.add(index);
    this.replies.delete(index);
    this.#traces.delete(index);
    const sampling = this.#samplingOf(trace);
    this.#emit({
      kind: 'finished',
      ...output,
      ...(sampling === undefined ? {} : { sampling }),
      finishReason: read.finish.reason,
      stopReason: read.finish.stopReason,
    });
  }

  #remember({ index, tokenIds }: SampledTokens): void {
    const reply = this.replies.get(index) ?? [];
    for (const id of tokenIds) reply.push(id);
    this.replies.set(index, reply);
  }

  #traceOf(index: number): DrawnTokens {
    const constraint = this.#isRead ? (this.#choices.get(index)?.constraint ?? null) : null;
    const trace = this.#traces.get(index) ?? new DrawnTokens(this.#vocabSize, constraint);
    this.#traces.set(index, trace);
    return trace;
  }

  /** Record of a choice's sampling; undefined if not requested, or unknown. */
  #samplingOf(trace: DrawnTokens): ChoiceSampling | null | undefined {
    const { request, banned, text } = this.submission;
    if (!request.tracesSampling || request.beamSearch !== null) return undefined;
    const settings = samplingChangesOf(request, text?.isMasking === true || banned.length > 0);
    if (settings === null) return null;
    if (request.sampling.temperature === 0) return { settings, trace: null, lost: 'greedy' };
    return trace.numTokens === 0 ? undefined : trace.sampling(settings);
  }

  /** Returns the tokens up to the point at which text ends the choice. */
  #textOf({
    index,
    tokenIds,
    text: given,
    finish,
  }: SampledTokens): Pick<SampledTokens, 'finish'> & { text: string; numTokens: number } {
    const { text, request } = this.submission;
    const whole = { text: given ?? '', finish, numTokens: tokenIds.length };
    if (!this.#isRead || text === null) return whole;
    if (request.beamSearch) return { ...whole, text: text.textOf(tokenIds) };
    const choice = this.#choices.get(index) ?? text.openChoice();
    this.#choices.set(index, choice);
    let sum = '';
    for (const [at, token] of tokenIds.entries()) {
      const isLast = finish !== null && at === tokenIds.length - 1;
      const verdict = choice.push(token, isLast ? { ...finish, isToken: finish.reason === 'stop' } : null);
      sum += verdict.text;
      if (verdict.finish === null) continue;
      this.#isCutOff ||= !isLast;
      return { text: sum, finish: verdict.finish, numTokens: at + 1 };
    }
    return { ...whole, text: sum };
  }

  #scores(scores: ScoredTokens) {
    return scores.map((entries) => entries && entries.map((entry) => ({ ...this.#withText(entry), rank: entry.rank })));
  }

  #entryOf({ top, logitSum, ...sampled }: SampledEntry): TokenLogprob {
    const others = top.map((other) => this.#withText(other));
    return { ...this.#withText(sampled), top: others, ...(logitSum === undefined ? {} : { logitSum }) };
  }

  #withText({ id, logprob }: SampledLogprob) {
    return { ...this.#descriptions.of(id), logprob };
  }

  /** Aborts if the receiver throws: it has gone. */
  #emit(event: Parameters<TokenSubmission['emit']>[0]): void {
    try {
      this.submission.emit(event);
    } catch {
      this.abort();
    }
  }
}
