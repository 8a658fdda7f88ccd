import { BorrowedOnnxSession, type OnnxSessionPlace, type OnnxTensor } from '@trainyard/native';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';

export interface ActivationWorkData {
  readonly memory: SharedWasmMemory;
  /** Float64, because addresses may exceed 2 GiB. */
  readonly cells: Float64Array<SharedArrayBuffer>;
  /** Valid while the graph is open. */
  readonly place: OnnxSessionPlace;
}

/** Addresses are bytes. */
export const ACTIVATION_CELL = { numRows: 0, width: 1, rowsPerUnit: 2, gate: 3, up: 4, activated: 5 } as const;

/** A unit is some rows. */
export class ActivationWork {
  readonly #memory: SharedArrayBuffer;
  readonly #cells: Float64Array;
  readonly #inputNames: readonly string[];
  readonly #graph: BorrowedOnnxSession;

  constructor({ memory, cells, place }: ActivationWorkData) {
    this.#memory = memory.buffer;
    this.#cells = cells;
    this.#inputNames = place.inputNames;
    this.#graph = new BorrowedOnnxSession(place);
  }

  compute(unit: number): void {
    const value = (name: keyof typeof ACTIVATION_CELL): number => this.#cells[ACTIVATION_CELL[name]]!;
    const [width, rowsPerUnit] = [value('width'), value('rowsPerUnit')];
    const first = unit * rowsPerUnit;
    const count = Math.min(rowsPerUnit, value('numRows') - first);
    const rowsAt = (start: number): OnnxTensor => ({
      data: new Float32Array(this.#memory, start + 4 * first * width, count * width),
      dims: [count, width],
    });
    const inputs = this.#inputNames.map((name) => rowsAt(value(name as 'gate' | 'up')));
    this.#graph.run(inputs, [rowsAt(value('activated'))]);
  }
}
