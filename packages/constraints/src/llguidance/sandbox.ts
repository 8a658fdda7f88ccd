import { Llguidance, type GrammarSource, type LlguidanceSnapshot, type MatcherHandle } from './llguidance.ts';
import { llguidanceModule } from './llguidance-module.ts';
import type { PackedTokens } from './token-table.ts';
import type { WasmModule } from './web-assembly.ts';

/** The largest constraint in the tests that compiles takes a tenth. */
const COMPILE_BYTES = 128 * 1024 * 1024;
/** All constraints together; the module's own limit is 1 GiB. */
const TOTAL_BYTES = 900 * 1024 * 1024;

/** Everything that an instance is made of; other threads share it. */
export interface SandboxBase {
  readonly module: WasmModule;
  readonly snapshot: LlguidanceSnapshot;
}

/** Vocabulary of the first instance, or the base that another thread has made of it. */
export type SandboxOrigin = { readonly base: SandboxBase } | { readonly vocabulary: PackedTokens };

/**
 * The live instance of llguidance in this thread, made when it is first needed. After a trap the next use gets a
 * new one from the snapshot; old handles are then invalid, which `generation` shows.
 */
export class Sandbox {
  #origin: SandboxOrigin;
  #instance: Llguidance | null = null;
  #generation = 0;

  constructor(origin: SandboxOrigin) {
    this.#origin = origin;
  }

  get origin(): SandboxOrigin {
    return this.#origin;
  }

  /** Uses what another thread has made of the same vocabulary. */
  adopt(base: SandboxBase): void {
    if (!('base' in this.#origin)) this.#origin = { base };
  }

  /** Makes the instance ahead. */
  open(): SandboxBase {
    void this.instance;
    return this.#base;
  }

  get #base(): SandboxBase {
    if ('base' in this.#origin) return this.#origin.base;
    const module = llguidanceModule();
    this.#instance = Llguidance.fromVocabulary(module, this.#origin.vocabulary);
    this.#generation++;
    const base = { module, snapshot: this.#instance.snapshot() };
    this.#origin = { base };
    return base;
  }

  get instance(): Llguidance {
    const { module, snapshot } = this.#base;
    if (this.#instance === null || this.#instance.isDead) {
      this.#instance = Llguidance.fromSnapshot(module, snapshot);
      this.#generation++;
    }
    return this.#instance;
  }

  /** Instances so far, including the live one. */
  get generation(): number {
    return this.instance.isDead ? NaN : this.#generation;
  }

  /**
   * Also computes the first mask: constraints that allow nothing fail here.
   *
   * @throws {LlguidanceRefusal} | {LlguidanceTrap}
   */
  compile(source: GrammarSource): MatcherHandle {
    const { instance } = this;
    instance.setHeapLimit(Math.min(instance.liveBytes + COMPILE_BYTES, TOTAL_BYTES));
    const handle = instance.compile(source);
    try {
      instance.fillMask(handle, new Uint32Array(this.#base.snapshot.maskWords));
    } catch (error) {
      instance.freeMatcher(handle);
      throw error;
    }
    instance.setHeapLimit(TOTAL_BYTES);
    return handle;
  }
}
