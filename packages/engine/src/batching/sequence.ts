/** Owner of a sequence, as seen by scheduler and cache. */
export interface SequenceOwner {
  readonly tenant: string;
  /** Prompts share memory only within it. */
  readonly namespace: string;
  /** null = the base model. */
  readonly adapterDigest: string | null;
  /** Lower goes first. */
  readonly priority: number;
  /** Order of arrival, unique. */
  readonly arrival: number;
  /** See {@link Sequence.round}. */
  readonly choicesPerRound: number;
  readonly promptIds: readonly number[];
  /** Progress of scoring the prompt; null if its logprobs were not requested. */
  readonly promptScorer: { readonly numScored: number; readonly isComplete: boolean } | null;
  readonly isPaused: boolean;
  readonly hasEnded: boolean;
}

/**
 * A sequence of tokens being generated. Preemption can take its slot and KV cells at any time: `numComputed`
 * falls to 0 and nothing else changes.
 */
export abstract class Sequence {
  readonly owner: SequenceOwner;
  /** Unique within its request. */
  readonly index: number;
  /** The request's own array until the first sampled token, so that n choices of a long prompt need one copy. */
  #tokens: readonly number[];
  #ownTokens: number[] | null = null;

  /** Runner's sequence number while running, null while waiting. */
  slot: number | null = null;
  /** Leading tokens whose keys and values are in the slot. */
  numComputed = 0;
  /** Set while another sequence computes a longer common prefix. */
  awaitedPrefix: { leader: Sequence; length: number } | null = null;
  /** Number of the plan in which it was last decoded. */
  lastPlan = 0;
  /** Next token undecided, so it needs no new cells. */
  isParked = false;

  constructor(owner: SequenceOwner, index: number, tokens: readonly number[]) {
    this.owner = owner;
    this.index = index;
    this.#tokens = tokens;
  }

  get tokens(): readonly number[] {
    return this.#tokens;
  }
  get promptLength(): number {
    return this.owner.promptIds.length;
  }
  get numSampled(): number {
    return this.#tokens.length - this.owner.promptIds.length;
  }
  /** Tokens to compute before the next one can be decided; at least 1 unless parked. */
  get numRemaining(): number {
    return this.#tokens.length - this.numComputed;
  }
  get isRunnable(): boolean {
    return !this.owner.isPaused && !this.isParked;
  }
  /** Prompt positions need logits, so unscored ones may not come from the cache. */
  get isScoringPrompt(): boolean {
    return this.index === 0 && this.owner.promptScorer?.isComplete === false;
  }
  /** Leading tokens that may come from other sequences' cells; never the last token. */
  get maxSharedTokens(): number {
    return this.isScoringPrompt ? this.owner.promptScorer!.numScored : this.#tokens.length - 1;
  }
  wantsLogitsAt(position: number): boolean {
    return (
      position === this.#tokens.length - 1 ||
      (this.isScoringPrompt && position >= this.owner.promptScorer!.numScored && position < this.promptLength - 1)
    );
  }

  append(token: number): void {
    this.#ownTokens ??= [...this.#tokens];
    this.#ownTokens.push(token);
    this.#tokens = this.#ownTokens;
  }

  /** Called once, when it is no longer scheduled. */
  abstract close(): void;

  /**
   * Later choices of a request come after first choices of its tenant's later requests, so that a request with
   * many choices does not block the others.
   */
  get round(): number {
    return Math.floor(this.index / this.owner.choicesPerRound);
  }

  /** Negative if this one goes first. */
  compare(other: Sequence): number {
    return (
      this.owner.priority - other.owner.priority ||
      this.round - other.round ||
      this.owner.arrival - other.owner.arrival ||
      this.index - other.index
    );
  }
}
