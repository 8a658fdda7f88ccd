import { Llguidance, type GrammarSource, type LlguidanceSnapshot, type MatcherHandle } from './llguidance.ts';
import type { TokenTable } from './token-table.ts';
import type { WasmModule } from './web-assembly.ts';

/** The largest constraint in the tests that compiles takes a tenth. */
const COMPILE_BYTES = 128 * 1024 * 1024;
/** All constraints together; the module's own limit is 1 GiB. */
const TOTAL_BYTES = 900 * 1024 * 1024;

/**
 * The live instance of llguidance in this thread. After a trap the next use gets a new one from the snapshot;
 * old handles are then invalid, which `generation` shows.
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
      instance.fillMask(handle, new Uint32Array(this.snapshot.maskWords));
    } catch (error) {
      instance.freeMatcher(handle);
      throw error;
    }
    instance.setHeapLimit(TOTAL_BYTES);
    return handle;
  }
}
