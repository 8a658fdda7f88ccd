import { createHash } from 'node:crypto';
import { ConstraintError } from './contract/constraint-error.ts';
import type { ConstraintSpec } from './contract/constraint-spec.ts';
import { grammarSource } from './languages/grammar-source.ts';
import type { GrammarSource } from './llguidance/llguidance.ts';
import { LlguidanceMatcher } from './llguidance/llguidance-matcher.ts';
import { llguidanceModule } from './llguidance/llguidance-module.ts';
import { MatcherCache } from './llguidance/matcher-cache.ts';
import { compileError } from './llguidance/refusal.ts';
import { Sandbox } from './llguidance/sandbox.ts';
import type { TokenMatcher } from './contract/token-matcher.ts';
import { packVocabulary, type TokenTable } from './llguidance/token-table.ts';
import { enforce, Validator, type Verdict } from './validation/validator.ts';
import type { ConstraintVocabulary } from './contract/vocabulary.ts';
import type { WasmModule } from './llguidance/web-assembly.ts';

export interface ConstraintsOptions {
  /** Processor time, milliseconds; wall time may be ten times that. Default: 1000. */
  validationTimeoutMs?: number;
  /**
   * True to start the compiling thread ahead, and to replace a killed one. Default false: started by the first
   * constraint.
   */
  keepsThreadReady?: boolean;
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

/** A group of rollouts asks once. */
const MAX_VERDICTS = 1000;

/**
 * Constraints for one vocabulary, in one thread. First `check` (microseconds) or `validate` (also compiles, in
 * another thread within a time limit), then `compile` in the sampling thread. Close it and its matchers when
 * done.
 */
export class Constraints implements Disposable {
  readonly #table: TokenTable;
  readonly #endTokenIds: ReadonlySet<number>;
  readonly #sandbox: Sandbox;
  readonly #cache: MatcherCache;
  readonly #validator: Validator;
  readonly #verdicts = new Map<string, Verdict>();

  static async create(vocabulary: ConstraintVocabulary, options: ConstraintsOptions = {}): Promise<Constraints> {
    return new Constraints(await llguidanceModule(), packVocabulary(vocabulary), options);
  }

  private constructor(module: WasmModule, table: TokenTable, options: ConstraintsOptions) {
    this.#table = table;
    this.#endTokenIds = new Set(table.endTokenIds);
    this.#sandbox = Sandbox.fromVocabulary(module, table);
    this.#cache = new MatcherCache(this.#sandbox, options.cacheBytes ?? 128 * 1024 * 1024);
    this.#validator = new Validator(this.#sandbox, options.validationTimeoutMs ?? 1000, {
      isKeptReady: options.keepsThreadReady ?? false,
    });
  }

  get stats(): ConstraintsStats {
    return {
      numInstances: this.#sandbox.generation,
      numCached: this.#cache.size,
      numRenewed: this.#cache.numRenewed,
      liveBytes: this.#cache.liveBytes,
      numThreads: this.#validator.numThreads,
    };
  }

  get isCompiling(): boolean {
    return this.#validator.isBusy;
  }

  get version(): string {
    return this.#sandbox.instance.version;
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
    if (this.#cache.has(source)) return;
    const key = createHash('sha256').update(source.syntax).update(source.text).digest('base64');
    let verdict = this.#verdicts.get(key);
    if (verdict === undefined) {
      verdict = await this.#validator.validate(source, signal);
      this.#remember(key, verdict);
    }
    enforce(verdict);
  }

  /** A matcher in its initial state. A recent constraint takes 0.02 ms, others a few. @throws {ConstraintError} */
  compile(spec: ConstraintSpec): TokenMatcher {
    const source = this.#source(spec);
    try {
      const vocabulary = { endTokenIds: this.#endTokenIds, vocabSize: this.#table.lengths.length };
      return new LlguidanceMatcher(this.#cache, source, vocabulary);
    } catch (error) {
      throw compileError(error);
    }
  }

  close(): void {
    this.#validator.close();
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

  #source(spec: ConstraintSpec): GrammarSource {
    return grammarSource(spec, (token) => {
      const id = typeof token === 'number' ? token : this.#table.controlTokens.get(token);
      if (id !== undefined && id >= 0 && id < this.#table.lengths.length) return id;
      throw new ConstraintError('constraint.invalid', `there is no control token ${JSON.stringify(token)}`);
    });
  }
}
