import type { ChoiceSampling } from '@trainyard/protocol/fields';
import { Sequence } from '../batching/sequence.ts';
import { type DrawKey, RandomStream } from '../sampling/random.ts';
import { SamplingTracer } from '../sampling/sampling-tracer.ts';
import type { TokenAdjustments } from '@trainyard/decoder';
import type { ActiveRequest } from './active-request.ts';
import type { ChoiceText, StopVerdict } from '@trainyard/backend';
import { TokenStops } from './token-stops.ts';

export class Choice extends Sequence {
  declare readonly owner: ActiveRequest;
  readonly random: RandomStream;
  readonly text: ChoiceText | null;
  /** Null unless the request asks for the drawn distribution and it differs from the model's. */
  readonly tracer: SamplingTracer | null;
  readonly #stops: TokenStops;
  readonly #adjustments: TokenAdjustments;
  readonly #generatedCounts = new Map<number, number>();
  #nextKey: DrawKey | null = null;

  constructor(owner: ActiveRequest, index: number) {
    super(owner, index, owner.promptIds);
    const { request, ends } = owner;
    this.random = RandomStream.forChoice(request.sampling.seed, index);
    this.#stops = new TokenStops({
      eosTokenId: ends.eosTokenId,
      endTokenIds: ends.endTokenIds,
      ignoreEos: request.ignoreEos,
      stopTokenIds: owner.stopTokenIds,
      minTokens: owner.minTokens,
      maxTokens: owner.maxTokens,
      repetition: request.repetitionDetection,
    });
    this.text = owner.text?.openChoice() ?? null;
    const { temperature } = request.sampling;
    this.tracer =
      owner.samplingChanges === null || temperature === 0 ? null : new SamplingTracer(temperature, owner.reportsDraws);
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

  /** Unchanged if earlier tokens are recomputed. */
  get nextKey(): DrawKey {
    this.#nextKey ??= this.random.drawKey();
    return this.#nextKey;
  }

  get adjustments(): TokenAdjustments {
    const adjustments = this.#adjustments;
    const { banned, endingIds } = this.owner;
    if (banned !== null) adjustments.banned = banned.bannedAfter(this.tokens, this.promptLength);
    const forced = this.text?.forcedId ?? null;
    // An end of reasoning that ends the reply must respect minTokens.
    adjustments.forced = forced !== null && adjustments.masked !== null && endingIds.has(forced) ? null : forced;
    return adjustments;
  }

  override append(token: number): void {
    super.append(token);
    this.#nextKey = null;
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

  /** Advances by one sampled token. @throws {EngineError} as {@link ChoiceConstraint.accept} */
  take(token: number): StopVerdict {
    this.append(token);
    const constraint = this.text?.constraint ?? null;
    const ending = this.#stops.push(token, constraint?.endsWith(token));
    const verdict = this.text?.push(token, ending) ?? { text: '', finish: ending };
    if (verdict.finish === null) constraint?.accept(token);
    return verdict;
  }

  /** `undefined` if not requested. */
  get sampling(): ChoiceSampling | null | undefined {
    const { samplingChanges: settings } = this.owner;
    if (!this.owner.request.tracesSampling) return undefined;
    if (settings === null) return null;
    const trace = this.tracer?.finish() ?? null;
    if (trace !== null) return { settings, trace, lost: null };
    return { settings, trace, lost: this.tracer === null ? 'greedy' : 'too_large' };
  }

  close(): void {
    this.text?.close();
  }
}

const NO_IDS: ReadonlySet<number> = new Set();
