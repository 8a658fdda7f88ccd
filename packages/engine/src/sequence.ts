import type { ActiveRequest } from './active-request.ts';
import type { EngineTokenizer } from './chat.ts';
import { RandomStream } from './random.ts';
import { StopDetector } from './stop-detector.ts';
import type { TokenAdjustments } from './token-adjustments.ts';

/**
 * One choice being generated. It owns its tokens, its random numbers and its text; the KV cells are lent to it by slot and can be taken
 * back at any time (preemption): then `numComputed` falls to 0 and nothing else changes.
 */
export class Sequence {
  readonly owner: ActiveRequest;
  /** Of the choice inside its request. */
  readonly index: number;
  readonly random: RandomStream;
  readonly stopDetector: StopDetector;
  readonly adjustments: TokenAdjustments;
  /** Ids whose logits are masked until minTokens are generated. */
  readonly #endingIds: ReadonlySet<number>;
  readonly #generatedCounts = new Map<number, number>();
  /** The request's own prompt array until the first sampled token: n choices of a long prompt cost one. */
  #tokens: readonly number[];
  #ownTokens: number[] | null = null;

  /** Runner's sequence number while running, null while waiting. */
  slot: number | null = null;
  /** Leading tokens whose keys and values are in the slot. */
  numComputed = 0;
  /** While waiting: another sequence is computing a longer common prefix. Ask again when it holds that many tokens. */
  awaitedPrefix: { leader: Sequence; length: number } | null = null;

  constructor(owner: ActiveRequest, index: number, tokenizer: EngineTokenizer) {
    const { request } = owner;
    this.owner = owner;
    this.index = index;
    this.#tokens = owner.promptIds;
    this.random = RandomStream.forChoice(request.sampling.seed, index);
    const stopTokenIds = new Set(request.stopTokenIds);
    this.stopDetector = new StopDetector(
      {
        eosTokenId: tokenizer.eosTokenId,
        endTokenIds: tokenizer.endTokenIds,
        ignoreEos: request.ignoreEos,
        stopTokenIds,
        stop: request.stop,
        includeStopString: request.includeStopString,
        minTokens: owner.minTokens,
        maxTokens: owner.maxTokens,
      },
      tokenizer.createDecoder({ skipSpecial: request.skipSpecialTokens ?? true }),
    );
    this.#endingIds = request.ignoreEos
      ? stopTokenIds
      : new Set([...stopTokenIds, ...tokenizer.endTokenIds, tokenizer.eosTokenId]);
    this.adjustments = {
      masked: owner.minTokens > 0 ? this.#endingIds : null,
      logitBias: request.sampling.logitBias.map(([id, bias]) => [id, Math.max(-100, Math.min(100, bias))] as const),
      repetitionPenalty: request.sampling.repetitionPenalty,
      frequencyPenalty: request.sampling.frequencyPenalty,
      presencePenalty: request.sampling.presencePenalty,
      promptIds: request.sampling.repetitionPenalty === 1 ? NO_IDS : owner.promptIdSet,
      generatedCounts: this.#generatedCounts,
    };
  }

  /** Prompt and sampled tokens. */
  get tokens(): readonly number[] {
    return this.#tokens;
  }
  get promptLength(): number {
    return this.owner.promptIds.length;
  }
  get numSampled(): number {
    return this.#tokens.length - this.owner.promptIds.length;
  }
  /** Tokens still to compute before the next one can be sampled; at least 1. */
  get numRemaining(): number {
    return this.#tokens.length - this.numComputed;
  }
  get isRunnable(): boolean {
    return !this.owner.isPaused;
  }

  append(token: number): void {
    this.#ownTokens ??= [...this.#tokens];
    this.#ownTokens.push(token);
    this.#tokens = this.#ownTokens;
    const { adjustments } = this;
    if (
      adjustments.repetitionPenalty !== 1 ||
      adjustments.frequencyPenalty !== 0 ||
      adjustments.presencePenalty !== 0
    ) {
      this.#generatedCounts.set(token, (this.#generatedCounts.get(token) ?? 0) + 1);
    }
    if (this.numSampled >= this.owner.minTokens) adjustments.masked = null;
  }

  /** Negative when this one goes first: lower priority number, then arrival, then choice. */
  compare(other: Sequence): number {
    return (
      this.owner.request.priority - other.owner.request.priority ||
      this.owner.arrival - other.owner.arrival ||
      this.index - other.index
    );
  }
}

const NO_IDS: ReadonlySet<number> = new Set();
