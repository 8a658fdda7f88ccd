import type { SamplingChanges } from '@trainyard/protocol/fields';
import {
  clampedBias,
  type EndTokens,
  type EngineError,
  type RequestText,
  type SampleEvent,
  type SampleRequest,
  type SampleUsage as Usage,
  samplingChangesOf,
  toFailure,
  type TokenDescription,
} from '@trainyard/backend';
import type { RunnerAdapter } from '../runner/model-runner.ts';
import { BannedSequences } from '../sampling/banned-sequences.ts';
import { PromptScorer } from '../sampling/prompt-logprobs.ts';
import type { SequenceOwner } from '../batching/sequence.ts';

export interface RequestParts {
  /** Order of arrival, unique. */
  arrival: number;
  promptIds: readonly number[];
  /** See {@link Sequence.round}. */
  choicesPerRound: number;
  /** Resolved: fits the context after the prompt. */
  maxTokens: number;
  ends: EndTokens;
  banned: readonly (readonly number[])[];
  /** Null if the engine has no text. */
  text: RequestText | null;
  reportsDraws: boolean;
}

/** The only sender of its request's events; nothing follows `completed` or `failed`. */
export class ActiveRequest implements SequenceOwner {
  readonly request: SampleRequest;
  readonly arrival: number;
  readonly promptIds: readonly number[];
  readonly choicesPerRound: number;
  readonly maxTokens: number;
  readonly minTokens: number;
  /** Lower goes first. Beam searches have no priority of their own. */
  readonly priority: number;
  /** Tenant, salt and adapter digest: prompts share memory only within it. */
  readonly namespace: string;
  readonly stopTokenIds: ReadonlySet<number>;
  readonly ends: EndTokens;
  /** Ids masked until minTokens are generated: stop ids and end tokens, also under ignoreEos, as in vLLM. */
  readonly endingIds: ReadonlySet<number>;
  readonly allowedIds: readonly number[] | null;
  /** Biases of distinct ids, clamped to ±100. */
  readonly logitBias: readonly (readonly [number, number])[];
  readonly banned: BannedSequences | null;
  /** True if its replies must be repeatable. */
  readonly isReproducible: boolean;
  readonly text: RequestText | null;
  readonly promptScorer: PromptScorer | null;
  /** Null if not requested, or if nothing changes the distribution. */
  readonly samplingChanges: SamplingChanges | null;
  readonly reportsDraws: boolean;
  readonly #emit: (event: SampleEvent) => void;
  /** Outputs of choices that overtook the one that scores the prompt; null if none must wait. */
  #eventsAfterScores: SampleEvent[] | null;
  /** Held from the admission of the first choice to the end. */
  adapter: RunnerAdapter | null = null;
  /** Called once when the receiver is lost. */
  onReceiverLost: () => void = () => {};
  isPaused = false;
  isStarted = false;
  hasEnded = false;
  isReceiverLost = false;
  /** Sequences in the scheduler. */
  numUnfinished: number;
  readonly usage: Usage;
  #promptIdSet: ReadonlySet<number> | null = null;

  constructor(request: SampleRequest, parts: RequestParts, emit: (event: SampleEvent) => void) {
    const { promptIds, maxTokens } = parts;
    const isBeamSearch = request.beamSearch !== null;
    const numPromptLogprobs = isBeamSearch ? null : request.promptLogprobs;
    this.request = request;
    this.arrival = parts.arrival;
    this.promptIds = promptIds;
    this.choicesPerRound = parts.choicesPerRound;
    this.maxTokens = maxTokens;
    this.minTokens = Math.min(request.minTokens, maxTokens);
    this.priority = isBeamSearch ? 0 : request.priority;
    this.namespace = JSON.stringify([request.tenant, request.cacheSalt, request.adapter?.digest ?? null]);
    this.stopTokenIds = new Set(request.stopTokenIds);
    this.ends = parts.ends;
    this.endingIds = new Set([...request.stopTokenIds, ...parts.ends.endTokenIds, parts.ends.eosTokenId]);
    this.allowedIds = request.allowedTokenIds && [...new Set(request.allowedTokenIds)];
    this.logitBias = clampedBias(request.sampling.logitBias);
    this.banned = isBeamSearch || parts.banned.length === 0 ? null : new BannedSequences(parts.banned);
    this.isReproducible = request.sampling.seed !== null || request.sampling.temperature === 0 || isBeamSearch;
    this.text = parts.text;
    this.promptScorer = numPromptLogprobs === null ? null : new PromptScorer(promptIds, numPromptLogprobs);
    const isMasked = parts.text?.isMasking === true || this.banned !== null;
    this.samplingChanges = request.tracesSampling ? samplingChangesOf(request, isMasked) : null;
    this.reportsDraws = parts.reportsDraws;
    this.#eventsAfterScores = this.promptScorer !== null && request.promptLogprobsFirst ? [] : null;
    this.numUnfinished = isBeamSearch ? 1 : request.n;
    this.usage = { promptTokens: promptIds.length, completionTokens: 0, cachedTokens: 0 };
    this.#emit = emit;
  }

  get id(): string {
    return this.request.requestId;
  }
  get tenant(): string {
    return this.request.tenant;
  }
  /** null = the base model. */
  get adapterDigest(): string | null {
    return this.request.adapter?.digest ?? null;
  }

  /** Made at first use. */
  get promptIdSet(): ReadonlySet<number> {
    this.#promptIdSet ??= new Set(this.promptIds);
    return this.#promptIdSet;
  }

  start(cachedTokens: number): void {
    if (this.isStarted) return;
    this.isStarted = true;
    this.usage.cachedTokens = cachedTokens;
    this.send({ kind: 'started', promptTokenIds: [...this.promptIds], cachedTokens });
  }

  /** Sends the complete prompt logprobs if they must come first. @param describe writes a token */
  emitPromptScores(describe: (id: number) => TokenDescription): void {
    const held = this.#eventsAfterScores;
    if (held === null || !this.promptScorer!.isComplete) return;
    this.#eventsAfterScores = null;
    const first = describe(this.promptIds[0]!);
    this.send({ kind: 'prompt_scored', first, promptLogprobs: this.promptScorer!.entries });
    for (const event of held) this.send(event);
  }

  complete(): void {
    const usage = { ...this.usage };
    const promptLogprobs = this.request.promptLogprobsFirst ? null : this.promptScorer?.entries;
    this.send(promptLogprobs ? { kind: 'completed', usage, promptLogprobs } : { kind: 'completed', usage });
    this.hasEnded = true;
  }

  fail(failure: EngineError): void {
    this.send({ kind: 'failed', ...toFailure(failure) });
    this.hasEnded = true;
  }

  /** Sends an event. If the receiver throws, only its request is dropped, at the next step. */
  send(event: SampleEvent): void {
    if (this.hasEnded || this.isReceiverLost) return;
    try {
      const isOutput = event.kind === 'delta' || event.kind === 'finished';
      if (isOutput && this.#eventsAfterScores !== null) {
        this.#eventsAfterScores.push(event);
        return;
      }
      this.#emit(event);
    } catch {
      this.isReceiverLost = true;
      this.onReceiverLost();
    }
  }
}
