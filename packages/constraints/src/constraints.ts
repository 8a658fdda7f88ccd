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
  /** How long compiling a constraint may compute, milliseconds; ten times that may pass on a busy machine. Default: 1000. */
  validationTimeoutMs?: number;
  /** Starts the thread that compiles before it is wanted, and another when one had to be ended. Default false: with the first constraint. */
  keepsThreadReady?: boolean;
  /** Compiled constraints are kept while all that is alive takes no more. Default: 128 MiB. */
  cacheBytes?: number;
}

export interface ConstraintsStats {
  /** Instances of llguidance made in this thread; one more than the times it had to be replaced. */
  readonly numInstances: number;
  readonly numCached: number;
  /** Constraints compiled anew since their clones had filled up the lexer they share. */
  readonly numRenewed: number;
  /** Bytes held by all matchers, in use and cached. */
  readonly liveBytes: number;
  /** Threads for compiling that were started so far. */
  readonly numThreads: number;
}

/** Remembered verdicts: a group of rollouts asks once. */
const MAX_VERDICTS = 1000;

/**
 * Constraints for one vocabulary, in one thread.
 *
 * First `check` (microseconds) or `validate` (which includes it, and compiles in another thread within a time limit), then `compile`
 * where the tokens are sampled. Close it, and the matchers, when done.
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

  /** A constraint is being compiled in the other thread: it wants a core. */
  get isCompiling(): boolean {
    return this.#validator.isBusy;
  }

  /** Version of llguidance inside. */
  get version(): string {
    return this.#sandbox.instance.version;
  }

  /** Everything that can be said without compiling: sizes, nesting, counts, syntax, unsupported keywords. @throws {ConstraintError} */
  check(spec: ConstraintSpec): void {
    this.#source(spec);
  }

  /**
   * Compiles in a thread of its own, so that a hostile constraint costs no step of the engine. When it returns, `compile` succeeds.
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

  /** A matcher in its first state. A constraint that is in use or was lately costs 0.02 ms, another a few. @throws {ConstraintError} */
  compile(spec: ConstraintSpec): TokenMatcher {
    const source = this.#source(spec);
    try {
      return new LlguidanceMatcher(this.#cache, source, this.#endTokenIds, this.#table.lengths.length);
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
    // A busy machine is no property of the constraint: the next one who asks may have more luck.
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
