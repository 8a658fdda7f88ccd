/** The owner of a sequence, as far as scheduler and cache know it. */
export interface SequenceOwner {
  readonly tenant: string;
  /** Prompts share memory only inside it. */
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
  /** How far the prompt is scored; null when nobody asks for its logprobs. */
  readonly promptScorer: { readonly numScored: number; readonly isComplete: boolean } | null;
  readonly isPaused: boolean;
  readonly hasEnded: boolean;
}

/**
 * One line of tokens being generated, as scheduler and cache see it. It owns its tokens; the KV cells are lent to it by slot and can be
 * taken back at any time (preemption): then `numComputed` falls to 0 and nothing else changes.
 */
export abstract class Sequence {
  readonly owner: SequenceOwner;
  /** Unique inside its request. */
  readonly index: number;
  /** The request's own prompt array until the first sampled token: n choices of a long prompt cost one. */
  #tokens: readonly number[];
  #ownTokens: number[] | null = null;

  /** Runner's sequence number while running, null while waiting. */
  slot: number | null = null;
  /** Leading tokens whose keys and values are in the slot. */
  numComputed = 0;
  /** While waiting: another sequence is computing a longer common prefix. Ask again when it holds that many tokens. */
  awaitedPrefix: { leader: Sequence; length: number } | null = null;
  /** The plan in which it was decoded last, by number. */
  lastPlan = 0;
  /** All its tokens are computed and the next one is not decided yet: it may keep its cells and asks for none. */
  isParked = false;

  constructor(owner: SequenceOwner, index: number, tokens: readonly number[]) {
    this.owner = owner;
    this.index = index;
    this.#tokens = tokens;
  }

  /** Prompt and generated tokens. */
  get tokens(): readonly number[] {
    return this.#tokens;
  }
  get promptLength(): number {
    return this.owner.promptIds.length;
  }
  get numSampled(): number {
    return this.#tokens.length - this.owner.promptIds.length;
  }
  /** Tokens still to compute before the next one can be decided; at least 1 unless parked. */
  get numRemaining(): number {
    return this.#tokens.length - this.numComputed;
  }
  get isRunnable(): boolean {
    return !this.owner.isPaused && !this.isParked;
  }
  /**
   * Whether it scores the prompt, as the first of its request does: logits are wanted at each of its positions, and none may come from the cache
   * before they were.
   */
  get isScoringPrompt(): boolean {
    return this.index === 0 && this.owner.promptScorer?.isComplete === false;
  }
  /** Leading tokens that may come from other sequences' cells; the last token never does. */
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
   * Choices beyond the first few of a request come after those of its tenant's later requests, and give way to them: one request with
   * many choices does not hold up the others.
   */
  get round(): number {
    return Math.floor(this.index / this.owner.choicesPerRound);
  }

  /** Negative when this one, of the same tenant, goes first: lower priority number, then round, then arrival, then index. */
  compare(other: Sequence): number {
    return (
      this.owner.priority - other.owner.priority ||
      this.round - other.round ||
      this.owner.arrival - other.owner.arrival ||
      this.index - other.index
    );
  }
}
