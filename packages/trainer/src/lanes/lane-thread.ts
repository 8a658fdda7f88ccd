/** Thread that computes lanes of policies, one after the other. */
import { parentPort } from 'node:worker_threads';
import { LaneCompute } from './lane-compute.ts';
import type { GraphTiming, LanePass, LaneSetup, LaneTurns } from './lane-compute.ts';
import { LaneProgress, LaneStopped } from './lane-progress.ts';
import type { LaneStep } from './lane-schedule.ts';

export type LaneCommand =
  /** Makes the thread this lane until `close`. `cells`: of a `LaneProgress`. */
  | { readonly kind: 'open'; readonly setup: LaneSetup; readonly lane: number; readonly cells: Int32Array }
  | { readonly kind: 'begin'; readonly pass: LanePass }
  | { readonly kind: 'run'; readonly steps: readonly LaneStep[] }
  | { readonly kind: 'close' }
  | { readonly kind: 'end' };

/** Only a `run` has an answer. `stopped`: another lane was stopped. */
export type LaneAnswer =
  | { readonly timings: readonly GraphTiming[] }
  | { readonly error: unknown; readonly stopped: boolean };

const port = parentPort;
if (port === null) throw new Error('a lane is started by the model, not by hand');
let opened: { readonly compute: LaneCompute; readonly progress: LaneProgress; readonly turns: LaneTurns } | null = null;

/** Between pieces the thread sleeps and receives no messages. */
const turnsOf = (progress: LaneProgress, lane: number): LaneTurns => ({
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
});

port.on('message', (command: LaneCommand) => {
  switch (command.kind) {
    case 'open': {
      const progress = new LaneProgress(command.cells);
      opened = { compute: new LaneCompute(command.setup), progress, turns: turnsOf(progress, command.lane) };
      break;
    }
    case 'begin':
      opened!.compute.begin(command.pass);
      break;
    case 'run':
      run(command.steps, opened!);
      break;
    case 'close':
      opened?.compute.close();
      opened = null;
      break;
    case 'end':
      port.close();
      break;
    default:
      command satisfies never;
  }
});

function run(steps: readonly LaneStep[], { compute, progress, turns }: NonNullable<typeof opened>): void {
  compute.run(steps, turns).then(
    (timings) => port!.postMessage({ timings } satisfies LaneAnswer),
    (error: unknown) => {
      progress.stop();
      port!.postMessage({ error, stopped: error instanceof LaneStopped } satisfies LaneAnswer);
    },
  );
}
