import { badWords } from '../reply/bad-words.ts';
import type { TextTokenizer } from '../contract/text-tokenizer.ts';
import type { ConstraintCompiler } from '../reply/constraint.ts';
import {
  checkFirstToken,
  EngineError,
  type LocalTokens,
  refusal,
  toFailure,
  validateSampleRequest,
} from '@trainyard/backend';
import type { EngineEvent, GenerateRequest } from '../contract/generate-request.ts';
import { Preparation, type Submission } from './preparation.ts';
import { LONG_PROMPT_CHARACTERS, promptWeight } from '../prompt/prompt-weight.ts';
import { encodePrompt, fitPrompt, type EncodedPrompt, type PromptParts } from '../prompt/prompt.ts';
import { ReplyConstraints } from '../reply/reply-constraints.ts';
import type { ReasoningForm } from '../reply/reply-gate.ts';
import { createReplyReader, readsChannels } from '../reply/reply-reader.ts';
import { REASONING_END, type ReplyTraits } from '../prompt/reply-traits.ts';
import type { SchedulingPolicy } from '@trainyard/backend';
import { SubmissionQueue } from './submission-queue.ts';
import { ReplyText } from '../reply/reply-text.ts';
import { StopStrings } from '../reply/stop-strings.ts';
import { validateTextFields } from '../contract/validate-text-fields.ts';
import type { ThinkingLimit } from '../reply/thinking-budget.ts';

/**
 * Maximum prompts made between two steps, and their total characters beyond which no further one starts:
 * other streams wait meanwhile.
 */
const PREPARED_PER_STEP = 16;
const PREPARED_CHARACTERS_PER_STEP = 2 * LONG_PROMPT_CHARACTERS;
/** Share of a long prompt that this thread handles: sending it and reading its tokens. */
const SENT_CHARACTERS = LONG_PROMPT_CHARACTERS / 4;
/**
 * Maximum prompts and constraints of one tenant made on another thread at a time; all share that queue.
 */
const PREPARING_PER_TENANT = 8;

export interface IntakeParts {
  prompt: PromptParts;
  constraints: ConstraintCompiler | null;
  policy: SchedulingPolicy;
  tokens: LocalTokens;
}

/**
 * Turns requests into samplable tokens: checks, prompt, constraint. Waits for prompts made on another thread.
 *
 * A burst is processed in a few prompts per step, with tenants in turn; a request that leaves earlier costs
 * only its place in the queue.
 */
export class Intake {
  readonly #parts: IntakeParts;
  readonly #constraints: ReplyConstraints;
  readonly #queue = new SubmissionQueue();
  readonly #preparing = new Map<string, Preparation>();
  readonly #numPreparing = new Map<string, number>();
  /** Members of {@link #preparing} that the next step starts or ends. */
  readonly #settled = new Set<Preparation>();
  #onPrepared: () => void = () => {};
  #numLeft = PREPARED_PER_STEP;
  #charactersLeft = PREPARED_CHARACTERS_PER_STEP;
  #numArrivals = 0;

  constructor(parts: IntakeParts) {
    this.#parts = parts;
    this.#constraints = new ReplyConstraints(parts.constraints, parts.prompt.tokenizer);
  }

  /** Number of requests whose prompts are not ready. */
  get size(): number {
    return this.#queue.size + this.#preparing.size;
  }
  /** True if {@link prepareSome} or {@link takePrepared} has work. */
  get hasWork(): boolean {
    return this.#settled.size > 0 || this.hasPromptsToMake;
  }
  /** True if {@link prepareSome} has work. */
  get hasPromptsToMake(): boolean {
    return this.#queue.has(this.#mayPrepare);
  }

  setPaused(requestId: string, isPaused: boolean): void {
    const submission = this.#queue.get(requestId) ?? this.#preparing.get(requestId)?.submission;
    if (submission !== undefined) submission.isPaused = isPaused;
  }

  /**
   * Ends a request whose prompt is not ready: at once if nothing was done for it yet, else with the next
   * step.
   */
  abort(requestId: string): void {
    const preparation = this.#preparing.get(requestId);
    if (preparation !== undefined) {
      preparation.abort();
      this.#settled.add(preparation);
      return;
    }
    const submission = this.#queue.remove(requestId);
    if (submission !== undefined) refuse(submission.emit, new EngineError('engine.aborted', 'the request was aborted'));
  }

  /**
   * @param onPrepared called when a prompt or constraint that was not available at once is ready or has
   *   failed
   */
  submit(request: GenerateRequest, emit: (event: EngineEvent) => void, onPrepared: () => void): void {
    this.#onPrepared = onPrepared;
    const submission: Submission = { request, arrival: this.#numArrivals++, emit, isPaused: false };
    attempt(emit, () => {
      const { tokens, policy } = this.#parts;
      this.#checkCapacity(request.requestId);
      validateSampleRequest(request, { vocabSize: tokens.vocabSize, policy, maxChoices: tokens.limits.maxChoices });
      validateTextFields(request);
      // A refusal needs no step and is reported at once, even during long steps of others.
      if (this.#hasTime && this.#queue.size === 0 && this.#mayPrepare(request.tenant)) this.#begin(submission);
      else this.#queue.add(submission);
    });
  }

  /** Makes some of the waiting prompts, with tenants in turn. */
  prepareSome(): void {
    this.#numLeft = PREPARED_PER_STEP;
    this.#charactersLeft = PREPARED_CHARACTERS_PER_STEP;
    while (this.#hasTime) {
      const submission = this.#queue.take(this.#mayPrepare);
      if (submission === undefined) return;
      attempt(submission.emit, () => this.#begin(submission));
    }
  }

  get #hasTime(): boolean {
    return this.#numLeft > 0 && this.#charactersLeft > 0;
  }

  readonly #mayPrepare = (tenant: string): boolean => (this.#numPreparing.get(tenant) ?? 0) < PREPARING_PER_TENANT;

  #begin(submission: Submission): void {
    const { request } = submission;
    this.#numLeft--;
    const weight = promptWeight(request.prompt, LONG_PROMPT_CHARACTERS);
    const longTexts = weight > LONG_PROMPT_CHARACTERS ? this.#parts.prompt.longTexts : null;
    this.#charactersLeft -= longTexts === null ? weight : SENT_CHARACTERS;
    const controller = new AbortController();
    const prompt = encodePrompt(request, this.#parts.prompt, { longTexts, signal: controller.signal });
    const prepared = this.#prepare(request, prompt, controller);
    if (!(prepared instanceof Promise)) {
      this.#admit(submission, prepared);
      return;
    }
    this.#count(request.tenant, 1);
    const preparation = new Preparation(submission, prepared, controller, () => {
      this.#count(request.tenant, -1);
      if (!this.#endRefused(preparation) && this.#preparing.has(request.requestId)) this.#settled.add(preparation);
      this.#onPrepared();
    });
    this.#preparing.set(request.requestId, preparation);
  }

  #count(tenant: string, change: 1 | -1): void {
    const count = (this.#numPreparing.get(tenant) ?? 0) + change;
    if (count === 0) this.#numPreparing.delete(tenant);
    else this.#numPreparing.set(tenant, count);
  }

  /** @returns true if it was refused and its failure reported */
  #endRefused({ submission, outcome, isAborted }: Preparation): boolean {
    if (isAborted || outcome?.kind !== 'failed' || !this.#preparing.delete(submission.request.requestId)) return false;
    refuse(submission.emit, outcome.error);
    return true;
  }

  /** Continues the requests whose prompts are ready, and ends the aborted ones. */
  takePrepared(): void {
    for (const preparation of this.#settled) {
      const { submission, outcome, isAborted } = preparation;
      this.#preparing.delete(submission.request.requestId);
      attempt(submission.emit, () => {
        // A failed one has ended already unless it was aborted before.
        if (isAborted || outcome?.kind !== 'encoded')
          throw new EngineError('engine.aborted', 'the request was aborted');
        this.#admit(submission, outcome.prompt);
      });
    }
    this.#settled.clear();
  }

  /** Ends all requests that are not ready. */
  close(failure: EngineError): void {
    for (const preparation of this.#preparing.values()) {
      preparation.abort();
      refuse(preparation.submission.emit, failure);
    }
    this.#preparing.clear();
    this.#settled.clear();
    for (const { request, emit } of this.#queue.values()) {
      this.#queue.remove(request.requestId);
      refuse(emit, failure);
    }
  }

  #checkCapacity(requestId: string): void {
    const { tokens } = this.#parts;
    const { limits } = tokens;
    const numRequests = tokens.size + this.size;
    if (numRequests >= limits.maxRequests) {
      throw new EngineError(
        'engine.overloaded',
        `at most ${limits.maxRequests} requests may be in flight, got ${numRequests}: retry later`,
      );
    }
    if (tokens.has(requestId) || this.#preparing.has(requestId) || this.#queue.get(requestId) !== undefined) {
      throw refusal('requestId', `request id ${requestId} is already in flight`);
    }
  }

  /** Returns the prompt after checking its constraint. A refusal does not wait for a prompt in progress. */
  #prepare(
    request: GenerateRequest,
    prompt: EncodedPrompt | Promise<EncodedPrompt>,
    controller: AbortController,
  ): EncodedPrompt | Promise<EncodedPrompt> {
    const { signal } = controller;
    const check = (traits: ReplyTraits | null): Promise<void> | null =>
      this.#constraints.check(request, traits, signal);
    if (!(prompt instanceof Promise)) return check(prompt.replyTraits)?.then(() => prompt) ?? prompt;
    try {
      const checked = check(null);
      return Promise.all([prompt, checked]).then(async ([encoded]) => {
        // The format of replies is known by now, and may be part of the constraint.
        await check(encoded.replyTraits);
        return encoded;
      });
    } catch (error) {
      controller.abort();
      prompt.catch(() => undefined);
      throw error;
    }
  }

  #admit({ request, arrival, emit, isPaused }: Submission, encoded: EncodedPrompt): void {
    const { prompt, tokens } = this.#parts;
    const { tokenizer } = prompt;
    const { replyTraits: traits } = encoded;
    const promptIds = fitPrompt(request, encoded.ids, tokens.vocabSize, tokens.limits.maxContextTokens);
    const reader = createReplyReader(request.reply, traits, { isConstrained: request.beamSearch === null });
    const words = request.beamSearch === null ? request.badWords : [];
    const banned = badWords(words, tokenizer);
    const text = new ReplyText({
      tokenizer,
      stops: {
        stop: new StopStrings(request.stop),
        includeStopString: request.includeStopString,
        minTokens: request.minTokens,
        reasoning: unstopped(request, traits),
      },
      constraint: this.#constraints.compile(request, traits),
      thinkingLimit: thinkingLimit(request, traits, tokenizer),
      skipsSpecialTokens: request.skipSpecialTokens && reader?.keepsSpecialTokens !== true,
    });
    try {
      checkFirstToken(request, { vocabSize: tokens.vocabSize, ends: tokenizer, banned, text });
    } catch (error) {
      text.close();
      throw error;
    }
    // The tokens replace the messages, whose memory would be held while the request waits.
    const { prompt: _rendered, ...sampled } = request;
    tokens.submit({
      request: sampled,
      promptIds,
      arrival,
      isPaused,
      banned,
      text,
      reportsDraws: false,
      emit: reader === null ? emit : (event) => emit(reader.read(event)),
    });
  }
}

/** Form of the reasoning in which stop strings do not count; null if they count everywhere. */
function unstopped(
  { stopsInReasoning, stop, reply }: GenerateRequest,
  traits: ReplyTraits | null,
): ReasoningForm | null {
  if (stopsInReasoning || stop.length === 0 || reply === null || traits === null) return null;
  if (readsChannels(reply, traits)) return { kind: 'channels' };
  const { reasoning } = traits;
  return reasoning === null || reasoning.isDisabled ? null : { kind: 'block', startsInside: reasoning.startsInside };
}

/** Returns null if there is no reasoning to limit: the model has none, or the prompt has closed its block. */
function thinkingLimit(
  { thinkingTokenBudget: maxTokens }: GenerateRequest,
  traits: ReplyTraits | null,
  tokenizer: TextTokenizer,
): ThinkingLimit | null {
  const reasoning = traits?.reasoning ?? null;
  if (maxTokens === null || reasoning === null || reasoning.isDisabled) return null;
  const endIds = Array.from(tokenizer.encodeWithSpecial(REASONING_END));
  return { maxTokens, startsInside: reasoning.startsInside, endIds };
}

function attempt(emit: (event: EngineEvent) => void, task: () => void): void {
  try {
    task();
  } catch (error) {
    refuse(emit, error);
  }
}

function refuse(emit: (event: EngineEvent) => void, error: unknown): void {
  try {
    emit({ kind: 'failed', ...toFailure(error) });
  } catch {
    // The receiver is gone, and the request holds nothing to free.
  }
}
