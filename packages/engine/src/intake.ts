import { ActiveRequest } from './active-request.ts';
import { BadWords } from './bad-words.ts';
import { BeamSearch } from './beam-search.ts';
import type { EngineTokenizer } from './chat.ts';
import { Choice } from './choice.ts';
import type { ConstraintCompiler } from './constraint.ts';
import { asEngineError, EngineError } from './errors.ts';
import type { EngineEvent, GenerateRequest } from './generate-request.ts';
import { Preparation } from './preparation.ts';
import { encodePrompt, fitPrompt, type EncodedPrompt, type PromptParts } from './prompt.ts';
import { ReplyConstraints } from './reply-constraints.ts';
import { createReplyReader } from './reply-reader.ts';
import { REASONING_END, type ReplyTraits } from './reply-traits.ts';
import type { SchedulingPolicy } from './scheduler.ts';
import type { Sequence } from './sequence.ts';
import type { ThinkingLimit } from './thinking-budget.ts';
import { validateRequest } from './validate-request.ts';

export interface IntakeParts {
  prompt: PromptParts;
  constraints: ConstraintCompiler | null;
  policy: SchedulingPolicy;
  vocabSize: number;
  limits: { maxRequests: number; maxContextTokens: number };
  inFlight: ReadonlyMap<string, ActiveRequest>;
  /** Takes a request that is ready to run. */
  admit: (active: ActiveRequest, sequences: readonly Sequence[]) => void;
}

/** From a request to sequences that can be scheduled: checks, prompt, constraint. Prompts made elsewhere are waited for here. */
export class Intake {
  readonly #parts: IntakeParts;
  readonly #constraints: ReplyConstraints;
  readonly #preparing = new Map<string, Preparation>();
  #numArrivals = 0;

  constructor(parts: IntakeParts) {
    this.#parts = parts;
    this.#constraints = new ReplyConstraints(parts.constraints);
  }

  /** Requests whose prompts are not ready. */
  get numPreparing(): number {
    return this.#preparing.size;
  }
  /** True when {@link takePrepared} has something to do. */
  get hasWork(): boolean {
    return this.#preparing.values().some(({ isAborted, outcome }) => isAborted || outcome !== null);
  }
  preparing(requestId: string): Preparation | undefined {
    return this.#preparing.get(requestId);
  }

  /** @param onPrepared called when what could not be had at once is ready, or has failed */
  submit(request: GenerateRequest, emit: (event: EngineEvent) => void, onPrepared: () => void): void {
    const arrival = this.#numArrivals++;
    attempt(emit, () => {
      const { prompt: parts, vocabSize, policy } = this.#parts;
      this.#checkRoom(request.requestId);
      validateRequest(request, vocabSize, policy);
      const controller = new AbortController();
      const prompt = encodePrompt(request, parts, controller.signal);
      const prepared = this.#prepare(request, prompt, controller);
      if (prepared instanceof Promise) {
        const preparation = new Preparation({ request, arrival, emit }, prepared, controller, () => {
          this.#endRefused(preparation);
          onPrepared();
        });
        this.#preparing.set(request.requestId, preparation);
      } else this.#admit(request, arrival, prepared, emit);
    });
  }

  /** A refusal needs no step: who is refused is told at once, however long the steps of others take. */
  #endRefused({ request, emit, outcome, isAborted }: Preparation): void {
    if (isAborted || outcome?.kind !== 'failed' || !this.#preparing.delete(request.requestId)) return;
    attempt(emit, () => {
      throw outcome.error;
    });
  }

  /** Goes on with the requests whose prompts are ready, and ends those that were aborted. */
  takePrepared(): void {
    for (const [id, { request, arrival, emit, outcome, isPaused, isAborted }] of this.#preparing) {
      if (!isAborted && outcome === null) continue;
      this.#preparing.delete(id);
      attempt(emit, () => {
        // What failed has ended by itself unless it was aborted before.
        if (isAborted || outcome?.kind !== 'encoded')
          throw new EngineError('engine.aborted', 'the request was aborted');
        this.#admit(request, arrival, outcome.prompt, emit).isPaused = isPaused;
      });
    }
  }

  /** Ends what is being prepared. */
  close(failure: EngineError): void {
    for (const preparation of this.#preparing.values()) {
      preparation.abort();
      attempt(preparation.emit, () => {
        throw failure;
      });
    }
    this.#preparing.clear();
  }

  #checkRoom(requestId: string): void {
    const { limits, inFlight } = this.#parts;
    const numRequests = inFlight.size + this.#preparing.size;
    if (numRequests >= limits.maxRequests) {
      throw new EngineError(
        'engine.overloaded',
        `at most ${limits.maxRequests} requests may be in flight, and there are ${numRequests}: try again later`,
      );
    }
    if (inFlight.has(requestId) || this.#preparing.has(requestId)) {
      throw new EngineError('engine.invalid_request', `request id ${requestId} is in flight already`, {
        param: 'requestId',
      });
    }
  }

  /** The prompt, once its constraint is checked. One that is refused at once is not kept waiting for a prompt that is being made. */
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
        // How replies are written is known by now, and may be a part of the constraint.
        await check(encoded.replyTraits);
        return encoded;
      });
    } catch (error) {
      controller.abort();
      prompt.catch(() => undefined);
      throw error;
    }
  }

  #admit(
    request: GenerateRequest,
    arrival: number,
    encoded: EncodedPrompt,
    emit: (event: EngineEvent) => void,
  ): ActiveRequest {
    const { prompt, vocabSize, limits, admit } = this.#parts;
    const { tokenizer } = prompt;
    const promptIds = fitPrompt(request, encoded.ids, vocabSize, limits.maxContextTokens);
    const isBeamSearch = Boolean(request.beamSearch);
    const endIds = request.ignoreEos ? [] : [...tokenizer.endTokenIds, tokenizer.eosTokenId];
    const replyReader = createReplyReader(request.reply ?? null, encoded.replyTraits);
    const badWords = isBeamSearch ? [] : (request.badWords ?? []);
    const active = new ActiveRequest(
      request,
      {
        arrival,
        promptIds,
        maxTokens: Math.min(request.maxTokens ?? Infinity, limits.maxContextTokens - promptIds.length),
        endingIds: new Set([...request.stopTokenIds, ...endIds]),
        badWords: badWords.length > 0 ? new BadWords(badWords, tokenizer) : null,
        constraint: this.#constraints.compile(request, encoded.replyTraits),
        thinkingLimit: thinkingLimit(request, encoded.replyTraits, tokenizer),
        replyReader,
      },
      emit,
    );
    if (isBeamSearch) {
      active.beamSearch = new BeamSearch(active, tokenizer);
      admit(active, active.beamSearch.liveBeams);
    } else {
      admit(
        active,
        Array.from({ length: request.n }, (_, index) => new Choice(active, index, tokenizer)),
      );
    }
    return active;
  }
}

/** Null where there is no reasoning to limit: the model knows none, or the prompt has closed its block. */
function thinkingLimit(
  { thinkingTokenBudget: maxTokens = null }: GenerateRequest,
  traits: ReplyTraits | null,
  tokenizer: EngineTokenizer,
): ThinkingLimit | null {
  const reasoning = traits?.reasoning ?? null;
  if (maxTokens === null || reasoning === null || reasoning.isDisabled) return null;
  const endIds = Array.from(tokenizer.encodeWithSpecial(REASONING_END));
  return { maxTokens, startsInside: reasoning.startsInside, endIds };
}

/** What a task throws is told to its request. */
function attempt(emit: (event: EngineEvent) => void, task: () => void): void {
  try {
    task();
  } catch (error) {
    const { code, message, param } = asEngineError(error);
    try {
      emit({ kind: 'failed', code, message, param });
    } catch {
      // Nobody listens any more, and nothing of the request is left that could be given back.
    }
  }
}
