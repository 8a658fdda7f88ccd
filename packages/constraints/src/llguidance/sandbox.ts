import { Llguidance, type GrammarSource, type LlguidanceSnapshot, type MatcherHandle } from './llguidance.ts';
import type { TokenTable } from './token-table.ts';
import type { WasmModule } from './web-assembly.ts';

/** Memory that compiling one constraint may take; the largest of the tests that compile take a tenth. */
const COMPILE_BYTES = 128 * 1024 * 1024;
/** Budget of all constraints together; the module itself ends at 1 GiB. */
const TOTAL_BYTES = 900 * 1024 * 1024;

/**
 * The one living instance of llguidance in this thread. After a trap the next use finds a new one, made from the snapshot; handles
 * into the old one are void, which `generation` tells.
 */
export class Sandbox {
  readonly module: WasmModule;
  readonly snapshot: LlguidanceSnapshot;
  #instance: Llguidance;
  #generation = 1;

  static fromVocabulary(module: WasmModule, table: TokenTable): Sandbox {
    const instance = Llguidance.fromVocabulary(module, table);
    return new Sandbox(module, instance.snapshot(), instance);
  }

  static fromSnapshot(module: WasmModule, snapshot: LlguidanceSnapshot): Sandbox {
    return new Sandbox(module, snapshot, Llguidance.fromSnapshot(module, snapshot));
  }

  private constructor(module: WasmModule, snapshot: LlguidanceSnapshot, instance: Llguidance) {
    this.module = module;
    this.snapshot = snapshot;
    this.#instance = instance;
  }

  get instance(): Llguidance {
    if (this.#instance.isDead) {
      this.#instance = Llguidance.fromSnapshot(this.module, this.snapshot);
      this.#generation++;
    }
    return this.#instance;
  }

  /** How many instances there have been, the living one included. */
  get generation(): number {
    return this.instance.isDead ? NaN : this.#generation;
  }

  /**
   * Compiles a source and computes its first mask, so that what allows nothing, or cannot even begin, fails here.
   * @throws {LlguidanceRefusal} | {LlguidanceTrap}
   */
  compile(source: GrammarSource): MatcherHandle {
    const { instance } = this;
    instance.setHeapLimit(Math.min(instance.liveBytes + COMPILE_BYTES, TOTAL_BYTES));
    const handle = instance.compile(source);
    try {
      instance.fillMask(handle, new Uint32Array(this.snapshot.maskWords));
    } catch (error) {
      instance.freeMatcher(handle);
      throw error;
    }
    instance.setHeapLimit(TOTAL_BYTES);
    return handle;
  }
}
