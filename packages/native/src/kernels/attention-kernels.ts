import type { KoffiFunc } from 'koffi';
import { addressOf } from '../binding/address-of.ts';
import { bindKernel, kernelInstructionSets, type InstructionSet } from './kernel-library.ts';

/** Fields of `struct plan` of `attention.c` after the memory's address, in its order. Places are bytes. */
const FIELDS = [
  'q',
  'o',
  'tables',
  'numKeys',
  'firstRows',
  'endRows',
  'sharedPages',
  'sinks',
  'queries',
  'part',
  'sums',
  'weights',
  'scores',
  'numHeads',
  'numKvHeads',
  'headSize',
  'partPages',
] as const;
/** Vectors of float32: D is a multiple. */
const LANES = 16;

export type AttentionPlan = Readonly<Record<(typeof FIELDS)[number], number>>;

/** A key head. */
export interface AttentionHead {
  readonly kvHead: number;
  /** Places to which a page's offset is added for its keys and values of the head; above 2 GiB they may be negative. */
  readonly keys: number;
  readonly values: number;
}

/** A plan, an {@link AttentionHead} with keys, values and index, and numbers of the kernel. */
type Kernel<Numbers extends number[]> = KoffiFunc<
  (...parameters: [plan: bigint, keys: number, values: number, kvHead: number, ...numbers: Numbers]) => void
>;

/** Attention over pages in one memory by one thread, in C. The caller's plan must describe that memory. */
export class AttentionKernels {
  readonly #memory: ArrayBufferView;
  readonly #plan: BigInt64Array;
  readonly #at: bigint;
  readonly #tiles: Kernel<[first: number, end: number]>;
  readonly #rows: Kernel<[first: number, end: number, shared: number]>;
  readonly #window: Kernel<[first: number, end: number, window: number]>;

  /** @param memory must not move @param instructions of {@link instructionSetsFor} */
  constructor(memory: SharedArrayBuffer, plan: AttentionPlan, instructions: InstructionSet) {
    const head = ['uintptr_t', 'uint32', 'uint32', 'int32'];
    this.#tiles = bindKernel('attend_tiles', [...head, 'int32', 'int32'], instructions);
    this.#rows = bindKernel('attend_rows', [...head, 'int32', 'int32', 'int32'], instructions);
    this.#window = bindKernel('attend_window', [...head, 'int32', 'int32', 'int32'], instructions);
    this.#memory = new Uint8Array(memory);
    // On a buffer of its own, which does not move.
    this.#plan = new BigInt64Array(new ArrayBuffer(8 * (1 + FIELDS.length)));
    this.#plan.set([addressOf(this.#memory), ...FIELDS.map((field) => BigInt(plan[field]))]);
    this.#at = addressOf(this.#plan);
  }

  /** Instruction sets of this machine whose kernels compute heads of this size, the widest first. */
  static instructionSetsFor(headSize: number): readonly InstructionSet[] {
    return headSize % LANES === 0 ? kernelInstructionSets() : [];
  }

  /** Computes outputs of tiles `first` to `end`. */
  attendTiles(first: number, end: number, { kvHead, keys, values }: AttentionHead): void {
    this.#tiles(this.#at, keys >>> 0, values >>> 0, kvHead, first, end);
  }

  /** Computes outputs of rows `first` to `end`, one by one, each over its last `window` keys. */
  attendWindow(first: number, end: number, window: number, { kvHead, keys, values }: AttentionHead): void {
    this.#window(this.#at, keys >>> 0, values >>> 0, kvHead, first, end, window);
  }

  /** Computes outputs of rows that fit a tile. @param shared leading full pages that all see */
  attend(first: number, end: number, shared: number, { kvHead, keys, values }: AttentionHead): void {
    this.#rows(this.#at, keys >>> 0, values >>> 0, kvHead, first, end, shared);
  }
}
