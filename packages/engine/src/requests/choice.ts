import type { ChoiceSampling } from '@trainyard/tokenizer';
import type { ActiveRequest } from './active-request.ts';
import type { EngineTokenizer } from '../contract/engine-tokenizer.ts';
import { ConstraintGuide } from '../reply/constraint.ts';
import { type DrawKey, RandomStream } from '../sampling/random.ts';
import { SamplingTracer } from '../sampling/sampling-tracer.ts';
import { Sequence } from '../batching/sequence.ts';
import { StopDetector } from '../reply/stop-detector.ts';
import { ThinkingBudget } from '../reply/thinking-budget.ts';
import type { TokenAdjustments } from '../sampling/token-adjustments.ts';

/** One sampled choice: a sequence with its random numbers, its text, its penalties and its place in the constraint. */
export class Choice extends Sequence {
  declare readonly owner: ActiveRequest;
  readonly random: RandomStream;
  readonly stopDetector: StopDetector;
  readonly guide: ConstraintGuide | null;
  /** Null unless the request wants to know what was drawn from, and that is not plainly the model's distribution. */
  readonly tracer: SamplingTracer | null;
  readonly #thinking: ThinkingBudget | null;
  readonly #adjustments: TokenAdjustments;
  readonly #generatedCounts = new Map<number, number>();
  #nextKey: DrawKey | null = null;

  constructor(owner: ActiveRequest, index: number, tokenizer: EngineTokenizer) {
    super(owner, index, owner.promptIds);
    const { request } = owner;
    this.random = RandomStream.forChoice(request.sampling.seed, index);
    this.stopDetector = new StopDetector(
      {
        eosTokenId: tokenizer.eosTokenId,
        endTokenIds: tokenizer.endTokenIds,
        ignoreEos: request.ignoreEos,
        stopTokenIds: owner.stopTokenIds,
        stop: owner.stopStrings,
        includeStopString: request.includeStopString,
        minTokens: owner.minTokens,
        maxTokens: owner.maxTokens,
        repetition: request.repetitionDetection ?? null,
      },
      tokenizer.createDecoder({ skipSpecial: owner.skipsSpecialTokens }),
    );
    this.guide = owner.constraint && new ConstraintGuide(owner.constraint.matcher, owner.constraint.start, tokenizer);
    const { temperature } = request.sampling;
    this.tracer = owner.samplingChanges === null || temperature === 0 ? null : new SamplingTracer(temperature);
    this.#thinking = owner.thinkingLimit && new ThinkingBudget(owner.thinkingLimit, tokenizer);
    this.#adjustments = {
      forced: null,
      allowed: owner.allowedIds,
      banned: [],
      masked: owner.minTokens > 0 ? owner.endingIds : null,
      logitBias: owner.logitBias,
      repetitionPenalty: request.sampling.repetitionPenalty,
      frequencyPenalty: request.sampling.frequencyPenalty,
      presencePenalty: request.sampling.presencePenalty,
      promptIds: request.sampling.repetitionPenalty === 1 ? NO_IDS : owner.promptIdSet,
      generatedCounts: this.#generatedCounts,
    };
  }

  /** Random numbers of the next token: the same ones however often what is before it is computed. */
  get nextKey(): DrawKey {
    this.#nextKey ??= this.random.drawKey();
    return this.#nextKey;
  }

  /** For the next token. */
  get adjustments(): TokenAdjustments {
    const adjustments = this.#adjustments;
    const { badWords, endingIds } = this.owner;
    if (badWords !== null) adjustments.banned = badWords.bannedAfter(this.tokens, this.promptLength);
    const forced = this.#thinking?.forcedId ?? null;
    // An end of reasoning that ends the reply comes no earlier than minTokens allow.
    adjustments.forced = forced !== null && adjustments.masked !== null && endingIds.has(forced) ? null : forced;
    return adjustments;
  }

  override append(token: number): void {
    super.append(token);
    this.#nextKey = null;
    this.#thinking?.push(token);
    const adjustments = this.#adjustments;
    if (
      adjustments.repetitionPenalty !== 1 ||
      adjustments.frequencyPenalty !== 0 ||
      adjustments.presencePenalty !== 0
    ) {
      this.#generatedCounts.set(token, (this.#generatedCounts.get(token) ?? 0) + 1);
    }
    if (this.numSampled >= this.owner.minTokens) adjustments.masked = null;
  }

  /** How it was drawn; `undefined` when the request does not ask. */
  get sampling(): ChoiceSampling | null | undefined {
    const { samplingChanges: settings } = this.owner;
    if (this.owner.request.tracesSampling !== true) return undefined;
    if (settings === null) return null;
    const trace = this.tracer?.finish() ?? null;
    if (trace !== null) return { settings, trace, lost: null };
    return { settings, trace, lost: this.tracer === null ? 'greedy' : 'too_large' };
  }

  close(): void {
    this.guide?.close();
  }
}

const NO_IDS: ReadonlySet<number> = new Set();
