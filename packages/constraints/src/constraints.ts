import { createHash } from 'node:crypto';
import { ConstraintError } from './contract/constraint-error.ts';
import type { ConstraintSpec } from './contract/constraint-spec.ts';
import { grammarSource } from './languages/grammar-source.ts';
import type { GrammarSource } from './llguidance/llguidance.ts';
import { LlguidanceMatcher } from './llguidance/llguidance-matcher.ts';
import { MatcherCache } from './llguidance/matcher-cache.ts';
import { compileError } from './llguidance/refusal.ts';
import { Sandbox } from './llguidance/sandbox.ts';
import type { TokenMatcher } from './contract/token-matcher.ts';
import { endTokensOf, packVocabulary, type TokenTable } from './llguidance/token-table.ts';
import { enforce, Validator, type Verdict } from './validation/validator.ts';
import type { ConstraintVocabulary } from './contract/vocabulary.ts';

export interface ConstraintsOptions {
  /** Processor time, milliseconds; wall time may be ten times that. Default: 1000. */
  validationTimeoutMs?: number;
  /** Memory of all live constraints up to which compiled ones are cached. Default: 128 MiB. */
  cacheBytes?: number;
}

export interface ConstraintsStats {
  /** Instances of llguidance made in this thread; one more than its replacements. */
  readonly numInstances: number;
  readonly numCached: number;
  /** Constraints recompiled because their clones had filled the shared lexer. */
  readonly numRenewed: number;
  /** Bytes of all matchers, in use and cached. */
  readonly liveBytes: number;
  readonly numThreads: number;
}

/** Made for the first constraint. */
interface Parts extends Pick<TokenTable, 'controlTokens'> {
  readonly sandbox: Sandbox;
  readonly cache: MatcherCache;
  readonly validator: Validator;
}

/** A group of rollouts asks once. */
const MAX_VERDICTS = 1000;

/**
 * Constraints for one vocabulary, in one thread. First `check` (microseconds) or `validate` (also compiles, in
 * another thread within a time limit), then `compile` in the sampling thread. The first one also waits for
 * llguidance and its tokens, 0.4 s. Close it and its matchers when done.
 */
export class Constraints implements Disposable {
  readonly #vocabulary: ConstraintVocabulary;
  readonly #endTokenIds: ReadonlySet<number>;
  readonly #options: Required<ConstraintsOptions>;
  readonly #verdicts = new Map<string, Verdict>();
  #parts: Parts | null = null;

  /** @throws {RangeError} for an end token outside the vocabulary */
  constructor(vocabulary: ConstraintVocabulary, options: ConstraintsOptions = {}) {
    this.#vocabulary = vocabulary;
    this.#endTokenIds = endTokensOf(vocabulary);
    this.#options = { validationTimeoutMs: 1000, cacheBytes: 128 * 1024 * 1024, ...options };
  }

  get stats(): ConstraintsStats {
    const { sandbox, cache, validator } = this.#open();
    return {
      numInstances: sandbox.generation,
      numCached: cache.size,
      numRenewed: cache.numRenewed,
      liveBytes: cache.liveBytes,
      numThreads: validator.numThreads,
    };
  }

  get isCompiling(): boolean {
    return this.#parts?.validator.isBusy ?? false;
  }

  get version(): string {
    return this.#open().sandbox.instance.version;
  }

  /** Checks sizes, nesting, counts, syntax and unsupported keywords. @throws {ConstraintError} */
  check(spec: ConstraintSpec): void {
    this.#source(spec);
  }

  /**
   * Compiles in a separate thread, so that a hostile constraint does not delay the engine. Afterwards `compile`
   * succeeds.
   *
   * @throws {ConstraintError} | the reason of the signal
   */
  async validate(spec: ConstraintSpec, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const source = this.#source(spec);
    const { cache, validator } = this.#open();
    if (cache.has(source)) return;
    const key = createHash('sha256').update(source.syntax).update(source.text).digest('base64');
    let verdict = this.#verdicts.get(key);
    if (verdict === undefined) {
      verdict = await validator.validate(source, signal);
      this.#remember(key, verdict);
    }
    enforce(verdict);
  }

  /** A matcher in its initial state. A recent constraint takes 0.02 ms, others a few. @throws {ConstraintError} */
  compile(spec: ConstraintSpec): TokenMatcher {
    const source = this.#source(spec);
    try {
      const { vocabSize } = this.#vocabulary;
      return new LlguidanceMatcher(this.#open().cache, source, { endTokenIds: this.#endTokenIds, vocabSize });
    } catch (error) {
      throw compileError(error);
    }
  }

  close(): void {
    this.#parts?.validator.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #remember(key: string, verdict: Verdict): void {
    // A timeout may come from a busy machine, so it is not cached.
    if (!verdict.isValid && verdict.code === 'constraint.timeout') return;
    this.#verdicts.set(key, verdict);
    const oldest = this.#verdicts.keys().next();
    if (this.#verdicts.size > MAX_VERDICTS && !oldest.done) this.#verdicts.delete(oldest.value);
  }

  #open(): Parts {
    if (this.#parts !== null) return this.#parts;
    const { tokens, controlTokens } = packVocabulary(this.#vocabulary);
    const sandbox = new Sandbox({ vocabulary: tokens });
    const { cacheBytes, validationTimeoutMs } = this.#options;
    const cache = new MatcherCache(sandbox, cacheBytes);
    return (this.#parts = { controlTokens, sandbox, cache, validator: new Validator(sandbox, validationTimeoutMs) });
  }

  #source(spec: ConstraintSpec): GrammarSource {
    return grammarSource(spec, (token) => {
      const id = typeof token === 'number' ? token : this.#open().controlTokens.get(token);
      if (id !== undefined && id >= 0 && id < this.#vocabulary.vocabSize) return id;
      throw new ConstraintError('constraint.invalid', `there is no control token ${JSON.stringify(token)}`);
    });
  }
}
