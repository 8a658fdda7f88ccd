import { ActiveRequest, type RequestConstraint } from './active-request.ts';
import { BadWords } from './bad-words.ts';
import { BeamSearch } from './beam-search.ts';
import { Choice } from './choice.ts';
import type { ConstraintCompiler, ConstraintStart } from './constraint.ts';
import { asEngineError, EngineError } from './errors.ts';
import type { EngineEvent, GenerateRequest } from './generate-request.ts';
import { Preparation } from './preparation.ts';
import { encodePrompt, fitPrompt, type EncodedPrompt, type PromptParts } from './prompt.ts';
import { createReplyReader, forcedCallSchema } from './reply-reader.ts';
import type { ReplyTraits } from './reply-traits.ts';
import type { SchedulingPolicy } from './scheduler.ts';
import type { Sequence } from './sequence.ts';
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
  readonly #preparing = new Map<string, Preparation>();
  #numArrivals = 0;

  constructor(parts: IntakeParts) {
    this.#parts = parts;
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
      const checked = this.#tryConstraint(request, prompt, controller);
      if (prompt instanceof Promise || checked !== null) {
        const prepared = Promise.all([prompt, checked]).then(([encoded]) => encoded);
        const preparation = new Preparation({ request, arrival, emit }, prepared, controller, onPrepared);
        this.#preparing.set(request.requestId, preparation);
      } else this.#admit(request, arrival, prompt, emit);
    });
  }

  /** Goes on with the requests whose prompts are ready, and ends those that failed or were aborted. */
  takePrepared(): void {
    for (const [id, { request, arrival, emit, outcome, isPaused, isAborted }] of this.#preparing) {
      if (!isAborted && outcome === null) continue;
      this.#preparing.delete(id);
      attempt(emit, () => {
        if (isAborted || outcome === null) throw new EngineError('engine.aborted', 'the request was aborted');
        if (outcome.kind === 'failed') throw outcome.error;
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
        constraint: this.#compile(request, encoded.replyTraits),
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

  /** Checks the constraint; when that is refused at once, the prompt that is being made is not waited for. */
  #tryConstraint(
    request: GenerateRequest,
    prompt: EncodedPrompt | Promise<EncodedPrompt>,
    controller: AbortController,
  ): Promise<void> | null {
    try {
      return this.#checkConstraint(request, controller.signal);
    } catch (error) {
      controller.abort();
      if (prompt instanceof Promise) prompt.catch(() => undefined);
      throw error;
    }
  }

  /** Null when there is nothing to check. */
  #checkConstraint(request: GenerateRequest, signal: AbortSignal): Promise<void> | null {
    const { constraints } = this.#parts;
    const constraint = this.#constraintOf(request);
    if (constraint === null) return null;
    if (constraints === null) {
      throw new EngineError('engine.invalid_request', 'constraint must be null: this engine compiles none', {
        param: 'constraint',
      });
    }
    const checked = constraints.validate?.(constraint, signal) ?? null;
    return (
      checked &&
      checked.catch((cause: unknown) => {
        throw asConstraintError(cause);
      })
    );
  }

  /** A choice of tools that forces calls takes the place of the request's own constraint. */
  #constraintOf(request: GenerateRequest): unknown {
    if (request.beamSearch) return null;
    const schema = forcedCallSchema(request.reply ?? null);
    if (schema === null) return request.constraint ?? null;
    return this.#parts.constraints?.forSchema?.(schema) ?? schema;
  }

  #compile(request: GenerateRequest, traits: ReplyTraits | null): RequestConstraint | null {
    const constraint = this.#constraintOf(request);
    if (constraint === null) return null;
    try {
      return { matcher: this.#parts.constraints!.compile(constraint), start: constraintStart(request, traits) };
    } catch (cause) {
      throw asConstraintError(cause);
    }
  }
}

/** A reply that reasons is held to its constraint behind its reasoning. */
function constraintStart(request: GenerateRequest, traits: ReplyTraits | null): ConstraintStart {
  const marker = request.constraintStartsAfter ?? null;
  if (marker !== null) return { kind: 'behind', marker };
  const reasoning = request.reply ? (traits?.reasoning ?? null) : null;
  if (reasoning === null || reasoning.isDisabled) return { kind: 'at_once' };
  if (reasoning.startsInside) return { kind: 'behind', marker: END_OF_REASONING };
  const openerId = traits?.thinkTokenId ?? null;
  return openerId === null ? { kind: 'at_once' } : { kind: 'behind_if_opened', openerId, marker: END_OF_REASONING };
}

const END_OF_REASONING = '</think>';

function asConstraintError(cause: unknown): EngineError {
  if (cause instanceof EngineError) return cause;
  const message = cause instanceof Error ? cause.message : String(cause);
  return new EngineError('engine.invalid_request', `the constraint is refused: ${message}`, {
    param: 'constraint',
    cause,
  });
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
