/** Main module of a lane's thread. */
import { parentPort, workerData } from 'node:worker_threads';
import { LaneCompute } from './lane-compute.ts';
import type { GraphTiming, LanePass, LaneSetup, LaneTurns } from './lane-compute.ts';
import { LaneProgress, LaneStopped } from './lane-progress.ts';
import type { LaneStep } from './lane-schedule.ts';

export type LaneCommand =
  | { readonly kind: 'begin'; readonly pass: LanePass }
  | { readonly kind: 'run'; readonly steps: readonly LaneStep[] }
  | { readonly kind: 'close' };

export interface LaneThreadData {
  readonly setup: LaneSetup;
  readonly lane: number;
  /** The cells of a `LaneProgress`. */
  readonly cells: Int32Array;
}

/** The answer to a `run`, and to no other command. `stopped`: because another lane was. */
export type LaneAnswer =
  | { readonly timings: readonly GraphTiming[] }
  | { readonly error: unknown; readonly stopped: boolean };

const port = parentPort;
if (port === null) throw new Error('a lane is started by the model, not by hand');
const { setup, lane, cells } = workerData as LaneThreadData;
const progress = new LaneProgress(cells);
const compute = new LaneCompute(setup);

/** Between pieces the thread sleeps, and hears no message. */
const turns: LaneTurns = {
  ready: async ({ waits }) => {
    progress.waitUntil(() => progress.isStopped || progress.isReady(lane, waits));
  },
  piece: async (work) => {
    while (!progress.tryBegin(lane)) {
      if (progress.isStopped) throw new LaneStopped();
      progress.waitUntil(() => !progress.isPaused);
    }
    try {
      work();
    } finally {
      progress.end(lane);
    }
  },
  ended: () => progress.endStep(lane),
};

port.on('message', (command: LaneCommand) => {
  switch (command.kind) {
    case 'begin':
      compute.begin(command.pass);
      break;
    case 'run':
      compute.run(command.steps, turns).then(
        (timings) => port.postMessage({ timings } satisfies LaneAnswer),
        (error: unknown) => {
          progress.stop();
          port.postMessage({ error, stopped: error instanceof LaneStopped } satisfies LaneAnswer);
        },
      );
      break;
    case 'close':
      compute.close();
      port.close();
      break;
    default:
      command satisfies never;
  }
});
