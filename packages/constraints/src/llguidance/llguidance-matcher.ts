import assert from 'node:assert';
import { ConstraintError } from '../contract/constraint-error.ts';
import { LlguidanceRefusal, type GrammarSource, type Llguidance, type MatcherHandle } from './llguidance.ts';
import type { MatcherCache } from './matcher-cache.ts';
import { runError } from './refusal.ts';
import type { TokenMatcher } from '../contract/token-matcher.ts';

/** Added by one completion to its constraint. */
const RUN_BYTES = 128 * 1024 * 1024;

/**
 * A matcher that outlives its instance: if another constraint destroyed the instance, it is recompiled in the
 * next one and replays its recorded tokens (1–4 µs each).
 */
export class LlguidanceMatcher implements TokenMatcher {
  readonly #cache: MatcherCache;
  readonly #source: GrammarSource;
  readonly #endTokenIds: ReadonlySet<number>;
  readonly #vocabSize: number;
  #tokens: number[] = [];
  #handle: MatcherHandle;
  #generation: number;
  /** True if the lexer is shared with others of the same source, which may have filled it. */
  #isShared = true;
  #isStopped: boolean;
  #hasEnded = false;
  #grownBytes = 0;
  #failure: unknown;
  #isClosed = false;

  /**
   * @param handle owned by this matcher; default a new one in the initial state
   * @throws {LlguidanceRefusal} | {LlguidanceTrap}
   */
  constructor(
    cache: MatcherCache,
    source: GrammarSource,
    { endTokenIds, vocabSize }: { readonly endTokenIds: ReadonlySet<number>; readonly vocabSize: number },
    handle = cache.open(source),
  ) {
    this.#cache = cache;
    this.#source = source;
    this.#endTokenIds = endTokenIds;
    this.#vocabSize = vocabSize;
    this.#handle = handle;
    this.#generation = cache.sandbox.generation;
    this.#isStopped = cache.sandbox.instance.isStopped(this.#handle);
  }

  get isStopped(): boolean {
    return this.#isStopped || this.#hasEnded;
  }

  get canEnd(): boolean {
    return this.isStopped || this.#attempt((instance, handle) => instance.canEnd(handle));
  }

  fillMask(mask: Uint32Array): void {
    this.#assertOpen();
    assert(mask.length === Math.ceil(this.#vocabSize / 32), `a mask has ${Math.ceil(this.#vocabSize / 32)} words`);
    if (!this.isStopped) {
      this.#attempt((instance, handle) => instance.fillMask(handle, mask));
      return;
    }
    mask.fill(0);
    for (const id of this.#endTokenIds) mask[id >>> 5]! |= 1 << (id & 31);
  }

  accept(tokenId: number): boolean {
    this.#assertOpen();
    if (!Number.isInteger(tokenId) || tokenId < 0 || tokenId >= this.#vocabSize) return false;
    if (this.isStopped || (this.#endTokenIds.has(tokenId) && this.canEnd)) {
      const isEnd = this.#endTokenIds.has(tokenId);
      this.#hasEnded ||= isEnd;
      return isEnd;
    }
    const isAccepted = this.#attempt((instance, handle) => {
      const accepted = instance.accept(handle, tokenId);
      if (accepted) this.#isStopped = instance.isStopped(handle);
      return accepted;
    });
    if (isAccepted) this.#tokens.push(tokenId);
    return isAccepted;
  }

  clone(): TokenMatcher {
    const handle = this.#attempt((instance, own) => instance.cloneMatcher(own), { isCharged: false });
    const vocabulary = { endTokenIds: this.#endTokenIds, vocabSize: this.#vocabSize };
    const copy = new LlguidanceMatcher(this.#cache, this.#source, vocabulary, handle);
    copy.#tokens = [...this.#tokens];
    copy.#isShared = this.#isShared;
    copy.#hasEnded = this.#hasEnded;
    copy.#grownBytes = this.#grownBytes;
    return copy;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#free();
  }

  /** Charges added memory to this matcher, unless the result belongs to another. */
  #attempt<T>(operation: (instance: Llguidance, handle: MatcherHandle) => T, { isCharged } = { isCharged: true }): T {
    this.#assertOpen();
    if (this.#failure !== undefined) throw this.#failure;
    try {
      if (this.#generation !== this.#cache.sandbox.generation) this.#replay();
      try {
        return this.#run(operation, isCharged);
      } catch (error) {
        if (!(error instanceof LlguidanceRefusal) || !this.#isShared) throw error;
        this.#cache.renew(this.#source);
        this.#replay();
        this.#isShared = false;
        return this.#run(operation, isCharged);
      }
    } catch (error) {
      this.#failure = runError(error);
      throw this.#failure;
    }
  }

  #assertOpen(): void {
    assert(!this.#isClosed, 'a closed matcher was used');
  }

  #run<T>(operation: (instance: Llguidance, handle: MatcherHandle) => T, isCharged: boolean): T {
    const { instance } = this.#cache.sandbox;
    const before = instance.liveBytes;
    const result = operation(instance, this.#handle);
    if (isCharged) this.#grownBytes += Math.max(0, instance.liveBytes - before);
    if (this.#grownBytes > RUN_BYTES) {
      const mebibytes = RUN_BYTES / 1024 / 1024;
      throw new ConstraintError(
        'constraint.exhausted',
        `the constraint needs more than ${mebibytes} MiB for one completion`,
      );
    }
    return result;
  }

  #replay(): void {
    this.#take(this.#cache.open(this.#source));
    const { instance } = this.#cache.sandbox;
    for (const token of this.#tokens)
      assert(instance.accept(this.#handle, token), 'a token was accepted once and refused later');
  }

  #take(handle: MatcherHandle): void {
    this.#free();
    this.#handle = handle;
    this.#generation = this.#cache.sandbox.generation;
  }

  #free(): void {
    const { sandbox } = this.#cache;
    if (this.#generation === sandbox.generation) sandbox.instance.freeMatcher(this.#handle);
  }
}
