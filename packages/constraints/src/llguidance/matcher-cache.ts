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
  readonly #handles = new Map<string, MatcherHandle>();
  #generation = 0;
  /** Memory of an instance without matchers. */
  #idleBytes = 0;
  #numRenewed = 0;

  constructor(sandbox: Sandbox, maxBytes: number) {
    this.sandbox = sandbox;
    this.#maxBytes = maxBytes;
  }

  get size(): number {
    this.#forgetDead();
    return this.#handles.size;
  }

  get numRenewed(): number {
    return this.#numRenewed;
  }

  get liveBytes(): number {
    this.#forgetDead();
    return this.sandbox.instance.liveBytes - this.#idleBytes;
  }

  has(source: GrammarSource): boolean {
    // The first question must not make the instance in this thread.
    if (this.#handles.size === 0) return false;
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
    if (this.#generation === 0) this.#idleBytes = this.sandbox.instance.liveBytes;
    this.#generation = this.sandbox.generation;
  }
}

function key(source: GrammarSource): string {
  return `${source.syntax}:${source.text}`;
}
