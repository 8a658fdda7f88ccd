/** Main module of a helper thread. It receives no messages and sleeps on a cell. */
import { workerData } from 'node:worker_threads';
import { AdapterWork, type AdapterWorkData } from '../adapters/adapter-work.ts';
import { ActivationWork, type ActivationWorkData } from '../products/activation-work.ts';
import { AttentionWork, type AttentionWorkData } from '../attention/attention-work.ts';
import { Bf16ProductWork, type Bf16ProductWorkData } from '../products/bf16-product-work.ts';
import { ExpandedProductWork, type ExpandedProductWorkData } from '../products/expanded-product-work.ts';
import { GraphProductWork, type GraphProductWorkData } from '../products/graph-product-work.ts';
import { PackedProductWork, type PackedProductWorkData } from '../packed/packed-product-work.ts';
import { helpWith, TEAM_CELL, type TeamThreadData, type TeamWork } from '../team/thread-team.ts';

/** Several products of one row: longer than the gap between two of them. */
const ALERT_MS = 0.3;

const data = workerData as TeamThreadData;
const { cells, works, thread } = data;
const own = works.map(open);
const compute = (unit: number) => own[Atomics.load(cells, TEAM_CELL.work)]!.compute(unit);
let seen = 0;
for (;;) {
  spinUntilWork();
  Atomics.wait(cells, TEAM_CELL.generation, seen);
  seen = Atomics.load(cells, TEAM_CELL.generation);
  if (Atomics.load(cells, TEAM_CELL.isClosed) === 1) break;
  helpWith(data, compute);
}
for (const work of own) work.close?.();

function open({ kind, data: ofWork }: TeamWork): { compute(unit: number): void; close?(): void } {
  switch (kind) {
    case 'attention':
      return new AttentionWork(ofWork as AttentionWorkData, thread);
    case 'adapter':
      return new AdapterWork(ofWork as AdapterWorkData, thread);
    case 'activation':
      return new ActivationWork(ofWork as ActivationWorkData);
    case 'graph-product':
      return new GraphProductWork(ofWork as GraphProductWorkData, thread);
    case 'expanded-product':
      return new ExpandedProductWork(ofWork as ExpandedProductWorkData, thread);
    case 'bf16-product':
      return new Bf16ProductWork(ofWork as Bf16ProductWorkData);
    default:
      return new PackedProductWork(ofWork as PackedProductWorkData);
  }
}

function spinUntilWork(): void {
  if (Atomics.load(cells, TEAM_CELL.isAlert) === 0) return;
  const until = performance.now() + ALERT_MS;
  while (Atomics.load(cells, TEAM_CELL.generation) === seen && performance.now() < until);
}
