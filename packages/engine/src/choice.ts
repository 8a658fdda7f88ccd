import type { ActiveRequest } from './active-request.ts';
import type { EngineTokenizer } from './chat.ts';
import { ConstraintGuide } from './constraint.ts';
import { RandomStream } from './random.ts';
import { Sequence } from './sequence.ts';
import { StopDetector } from './stop-detector.ts';
import { ThinkingBudget } from './thinking-budget.ts';
import type { TokenAdjustments } from './token-adjustments.ts';

/** One sampled choice: a sequence with its random numbers, its text, its penalties and its place in the constraint. */
export class Choice extends Sequence {
  readonly random: RandomStream;
  readonly stopDetector: StopDetector;
  readonly guide: ConstraintGuide | null;
  readonly #thinking: ThinkingBudget | null;
  readonly #adjustments: TokenAdjustments;
  readonly #generatedCounts = new Map<number, number>();

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

  close(): void {
    this.guide?.close();
  }
}

const NO_IDS: ReadonlySet<number> = new Set();
