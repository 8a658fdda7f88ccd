/** Main module of a thread that helps with attention. It hears no message: it sleeps on a cell until there is work, or an end. */
import { workerData } from 'node:worker_threads';
import { AttentionWork, CELL } from './attention-work.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import type { AttentionLayout } from './attention-work.ts';

export interface AttentionThreadData {
  readonly layout: AttentionLayout;
  readonly memories: readonly SharedWasmMemory[];
  readonly cells: Int32Array;
  readonly thread: number;
}

const { layout, memories, cells, thread } = workerData as AttentionThreadData;
const work = new AttentionWork(layout, memories, cells, thread);
let seen = 0;
for (;;) {
  Atomics.wait(cells, CELL.generation, seen);
  seen = Atomics.load(cells, CELL.generation);
  if (Atomics.load(cells, CELL.isClosed) === 1) break;
  work.run();
}
