import type { TokenMatcher } from '@trainyard/constraints';
import type { ToolDescription, ToolFormat } from '@trainyard/tokenizer';
import type { TextTokenizer } from '../contract/text-tokenizer.ts';
import { EngineError, allow, allowsOnly, noTokenLeft } from '@trainyard/backend';
import { MarkerFinder } from './marker-finder.ts';
import type { TokenMask, ChoiceConstraint } from '@trainyard/backend';

/** Part of the engine that understands constraints; the engine itself knows no kind of them. */
export interface ConstraintCompiler {
  /**
   * Settles before `compile` is called; rejects with a message for the client if the constraint is malformed,
   * too costly or not supported. Absent: `compile` is always fast.
   */
  validate?(constraint: unknown, signal: AbortSignal): Promise<void>;
  /** Another thread runs a `validate`, and the model leaves it a core until then. Default false. */
  readonly isCompiling?: boolean;
  /** @throws with a message for the client */
  compile(constraint: unknown): TokenMatcher;
  /** Returns the constraint for a JSON schema. Absent: tools cannot be forced. */
  forSchema?(schema: Readonly<Record<string, unknown>>, options: { isRelaxed: boolean }): unknown;
  /**
   * Returns the constraint on replies that are calls of tools in the model's format, or satisfy `constraint`.
   * Returns the latter itself if calls in that format cannot be described; absent: always.
   */
  orCalls?(
    constraint: unknown,
    format: ToolFormat,
    calls: { tools: readonly ToolDescription[]; isParallel: boolean },
  ): unknown;
}

export type ConstraintStart =
  | { kind: 'at_once' }
  /** After the first occurrence of this text. */
  | { kind: 'after'; marker: string }
  /** At once, unless the reply's first token is the opener: then after the marker. */
  | { kind: 'after_if_opened'; openerId: number; marker: string };

/** Masks for the error if the constraint by itself allows no token. */
const ALONE = { allowed: false, banned: false, ends: false, constraint: true };

/** Holds one choice to its request's constraint from its start on. */
export class ConstraintGuide implements ChoiceConstraint {
  readonly #root: TokenMatcher;
  readonly #tokenizer: TextTokenizer;
  readonly #endIds: ReadonlySet<number>;
  #marker: MarkerFinder | null;
  /** Opening token, until the reply's first token has decided if the constraint starts at once. */
  #openerId: number | null;
  #numTokens = 0;
  /** Cloned at first use, so choices that never run cost nothing. */
  #matcher: TokenMatcher | null = null;

  /**
   * @param root stays the caller's
   */
  constructor(root: TokenMatcher, start: ConstraintStart, tokenizer: TextTokenizer) {
    this.#root = root;
    this.#tokenizer = tokenizer;
    this.#endIds = new Set([...tokenizer.endTokenIds, tokenizer.eosTokenId]);
    this.#marker = start.kind === 'at_once' ? null : new MarkerFinder(start.marker, tokenizer);
    this.#openerId = start.kind === 'after_if_opened' ? start.openerId : null;
  }

  get isWaiting(): boolean {
    return this.#marker !== null && this.#openerId === null && !this.#marker.isFound;
  }

  fillMask(mask: TokenMask): 'any' | 'masked' | 'complete' {
    if (this.isWaiting) return 'any';
    const isStopped = attempt(() => {
      this.#matcher ??= this.#root.clone();
      const matcher = this.#matcher;
      const isOver = matcher.isStopped;
      if (isOver) mask.fill(0);
      else matcher.fillMask(mask);
      if (isOver || matcher.canEnd) allow(mask, this.#endIds);
      if (this.#openerId !== null) allow(mask, [this.#openerId]);
      return isOver && this.#openerId === null;
    });
    if (mask.every((word) => word === 0)) throw noTokenLeft(ALONE, this.#numTokens);
    return isStopped || allowsOnly(mask, this.#endIds) ? 'complete' : 'masked';
  }

  admits(token: number): boolean {
    const rest = this.#marker!.restAfter(token);
    if (rest === null || rest === '') return true;
    if (rest.includes('\uFFFD')) return false; // part of a character, whose bytes the constraint would never see
    return attempt(() => {
      const trial = this.#root.clone();
      try {
        for (const id of this.#tokenizer.encodeAfter(rest)) if (!trial.accept(id)) return false;
        return true;
      } finally {
        trial.close();
      }
    });
  }

  accept(token: number): void {
    this.#numTokens++;
    if (this.#openerId !== null) {
      if (token !== this.#openerId) this.#marker = null;
      this.#openerId = null;
    }
    let ids: Iterable<number> = [token];
    if (this.isWaiting) {
      const rest = this.#marker!.push(token);
      if (rest === null) return;
      ids = this.#tokenizer.encodeAfter(rest);
    }
    attempt(() => {
      this.#matcher ??= this.#root.clone();
      for (const id of ids) {
        if (!this.#matcher.accept(id)) throw new Error(`it allowed token ${id}, then refused it`);
      }
    });
  }

  endsWith(token: number): boolean {
    return !this.isWaiting && this.#endIds.has(token);
  }

  close(): void {
    closeMatcher(this.#matcher);
    this.#matcher = null;
  }
}

export function closeMatcher(matcher: TokenMatcher | null): void {
  try {
    matcher?.close();
  } catch {
    // A failure to close a matcher does no harm: its request is over.
  }
}

/** Converts errors of a matcher, which is foreign code, to a failure of its request only. */
function attempt<Result>(task: () => Result): Result {
  try {
    return task();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const isExhausted = cause instanceof Error && 'code' in cause && cause.code === 'constraint.exhausted';
    throw new EngineError(
      isExhausted ? 'engine.constraint_exhausted' : 'engine.internal',
      `the constraint failed: ${reason}`,
      { param: isExhausted ? 'constraint' : null, cause },
    );
  }
}
