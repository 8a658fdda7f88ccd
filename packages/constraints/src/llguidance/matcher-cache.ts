import type { GrammarSource, MatcherHandle } from './llguidance.ts';
import type { Sandbox } from './sandbox.ts';

/**
 * Cache of compiled constraints in their initial state: a group of rollouts compiles its schema once, and clones
 * share the lexer's results. If all live memory, including matchers in use, exceeds `maxBytes`, the least
 * recently used ones are evicted.
 */
export class MatcherCache {
  readonly sandbox: Sandbox;
  readonly #maxBytes: number;
  readonly #idleBytes: number;
  readonly #handles = new Map<string, MatcherHandle>();
  #generation: number;
  #numRenewed = 0;

  constructor(sandbox: Sandbox, maxBytes: number) {
    this.sandbox = sandbox;
    this.#maxBytes = maxBytes;
    this.#idleBytes = sandbox.instance.liveBytes;
    this.#generation = sandbox.generation;
  }

  get size(): number {
    this.#forgetDead();
    return this.#handles.size;
  }

  get numRenewed(): number {
    return this.#numRenewed;
  }

  get liveBytes(): number {
    return this.sandbox.instance.liveBytes - this.#idleBytes;
  }

  has(source: GrammarSource): boolean {
    this.#forgetDead();
    return this.#handles.has(key(source));
  }

  /** A clone in its initial state; the caller frees it. @throws {LlguidanceRefusal} | {LlguidanceTrap} */
  open(source: GrammarSource): MatcherHandle {
    this.#forgetDead();
    const name = key(source);
    const kept = this.#handles.get(name) ?? this.sandbox.compile(source);
    this.#handles.delete(name);
    this.#handles.set(name, kept);
    const clone = this.sandbox.instance.cloneMatcher(kept);
    this.#trim();
    return clone;
  }

  /** Makes the next `open` recompile. Clones in use are unaffected. */
  renew(source: GrammarSource): void {
    this.#numRenewed++;
    this.#forgetDead();
    this.#remove(key(source));
  }

  #trim(): void {
    for (const name of this.#handles.keys()) {
      // The last one is needed now.
      if (this.liveBytes <= this.#maxBytes || this.#handles.size === 1) return;
      this.#remove(name);
    }
  }

  #remove(name: string): void {
    const handle = this.#handles.get(name);
    if (handle === undefined) return;
    this.#handles.delete(name);
    this.sandbox.instance.freeMatcher(handle);
  }

  #forgetDead(): void {
    if (this.#generation === this.sandbox.generation) return;
    this.#handles.clear();
    this.#generation = this.sandbox.generation;
  }
}

function key(source: GrammarSource): string {
  return `${source.syntax}:${source.text}`;
}
