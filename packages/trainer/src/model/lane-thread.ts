/** Main module of a lane's thread. */
import { parentPort, workerData } from 'node:worker_threads';
import { LaneCompute } from './lane-compute.ts';
import type { GraphTiming, LaneOperation, LanePass, LaneSetup } from './lane-compute.ts';

export type LaneCommand =
  | { readonly kind: 'begin'; readonly pass: LanePass }
  | { readonly kind: 'run'; readonly operations: readonly LaneOperation[]; readonly round: number }
  | { readonly kind: 'close' };

/** The answer to a `run`, and to no other command. */
export type LaneAnswer = { readonly timings: readonly GraphTiming[] } | { readonly error: unknown };

const port = parentPort;
if (port === null) throw new Error('a lane is started by the model, not by hand');
const lane = new LaneCompute(workerData as LaneSetup);
port.on('message', (command: LaneCommand) => {
  switch (command.kind) {
    case 'begin':
      lane.begin(command.pass);
      break;
    case 'run':
      lane.run(command.operations, command.round).then(
        (timings) => port.postMessage({ timings } satisfies LaneAnswer),
        (error: unknown) => port.postMessage({ error } satisfies LaneAnswer),
      );
      break;
    case 'close':
      lane.close();
      port.close();
      break;
    default:
      command satisfies never;
  }
});
