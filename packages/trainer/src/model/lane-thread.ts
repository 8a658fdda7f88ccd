/** Main module of a lane's thread. */
import { parentPort, workerData } from 'node:worker_threads';
import { LaneCompute } from './lane-compute.ts';
import type { GraphTiming, LaneOperation, LanePass, LaneSetup } from './lane-compute.ts';

export type LaneCommand =
  | { readonly kind: 'begin'; readonly pass: LanePass }
  | { readonly kind: 'run'; readonly operations: readonly LaneOperation[]; readonly round: number }
  | { readonly kind: 'close' };

export interface LaneThreadData {
  readonly setup: LaneSetup;
  /** [1] 1 from the command to run until the run has ended. */
  readonly busy: Int32Array;
}

/** The answer to a `run`, and to no other command. */
export type LaneAnswer = { readonly timings: readonly GraphTiming[] } | { readonly error: unknown };

const port = parentPort;
if (port === null) throw new Error('a lane is started by the model, not by hand');
const { setup, busy } = workerData as LaneThreadData;
const lane = new LaneCompute(setup);
const answer = (message: LaneAnswer) => {
  Atomics.store(busy, 0, 0);
  Atomics.notify(busy, 0);
  port.postMessage(message);
};
port.on('message', (command: LaneCommand) => {
  switch (command.kind) {
    case 'begin':
      lane.begin(command.pass);
      break;
    case 'run':
      lane.run(command.operations, command.round).then(
        (timings) => answer({ timings }),
        (error: unknown) => answer({ error }),
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
