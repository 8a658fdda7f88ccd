import type { OnnxTensor } from '@trainyard/native';
import type { ConstantGraph, Feeds } from '../graphs/constant-graph.ts';
import type { DecoderMemory } from '../memory/decoder-memory.ts';
import type { ThreadTeam } from '../team/thread-team.ts';
import { ACTIVATION_CELL, ActivationWork, type ActivationWorkData } from './activation-work.ts';

/** Values of a unit, about 15 µs. */
const UNIT_VALUES = 16_384;

/** The activation of a feed-forward network, some rows by each thread: its values do not depend on each other. */
export class SharedActivation {
  readonly #graph: ConstantGraph;
  readonly #cells = new Float64Array(new SharedArrayBuffer(8 * Object.keys(ACTIVATION_CELL).length));
  readonly #compute: (unit: number) => void;
  readonly #team: ThreadTeam;
  readonly #work: number;

  /** @param graph gate, up → activated; open as long as this object @param memory of all rows */
  constructor(graph: ConstantGraph, memory: DecoderMemory, team: ThreadTeam) {
    this.#graph = graph;
    const data: ActivationWorkData = { memory: memory.shared, cells: this.#cells, place: graph.place };
    const own = new ActivationWork(data);
    this.#compute = (unit) => own.compute(unit);
    this.#team = team;
    this.#work = team.add({ kind: 'activation', data });
  }

  /** Blocks until done. @param feeds rows [rows, F] of the gate and up @param activated [rows, F], written */
  run(feeds: Feeds & Readonly<Record<'gate' | 'up', OnnxTensor>>, activated: OnnxTensor): void {
    const [numRows, width] = activated.dims as [number, number];
    const numUnits = Math.ceil((numRows * width) / UNIT_VALUES);
    if (numUnits === 1) return this.#graph.run(feeds, { activated });
    const cells = this.#cells;
    const rowsPerUnit = Math.ceil(numRows / numUnits);
    cells[ACTIVATION_CELL.numRows] = numRows;
    cells[ACTIVATION_CELL.width] = width;
    cells[ACTIVATION_CELL.rowsPerUnit] = rowsPerUnit;
    cells[ACTIVATION_CELL.gate] = feeds.gate.data.byteOffset;
    cells[ACTIVATION_CELL.up] = feeds.up.data.byteOffset;
    cells[ACTIVATION_CELL.activated] = activated.data.byteOffset;
    this.#team.run(this.#work, Math.ceil(numRows / rowsPerUnit), true, this.#compute);
  }
}
