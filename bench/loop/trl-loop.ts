import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { JsonLinesProcess } from '../json-lines-process.ts';
import { huggingFaceModel } from '../serving/peers/model-files.ts';
import type { Log } from '../serving/peers/peer.ts';
import { shownVariables } from '../settings-environment.ts';
import { ensureLoopEnvironment, torchVariables } from './loop-environment.ts';
import { type LoopKind, type LoopStep, promptsOf, waitingOf } from './loop-work.ts';

/** More steps than any run of the bench. */
const MOST_STEPS = 100;

/** TRL's GRPOTrainer in bf16: one process samples with transformers and trains; nothing is published. */
export function trlLoop(log: Log): LoopKind {
  return {
    name: 'TRL',
    install: async () => void (await ensureLoopEnvironment(log)),
    open: async (work) => {
      const python = await ensureLoopEnvironment(log);
      const variables = await torchVariables(python, log);
      const folder = mkdtempSync(join(tmpdir(), 'trainyard-loop-'));
      const script = join(import.meta.dirname, 'trl_grpo.py');
      const args = [script, await huggingFaceModel(log), folder];
      const trl = new JsonLinesProcess(python, args, variables);
      const close = async (): Promise<void> => {
        await trl.close();
        rmSync(folder, { recursive: true, force: true });
      };
      const prompts = Array.from({ length: MOST_STEPS }, (_, index) => promptsOf(work, index));
      const { ready } = (await trl.ask({ ...work, prompts })) as { ready: string };
      return {
        settings: `${ready}: ${shownVariables(variables)}`,
        // Its data set has the prompts in order, so the index is not used.
        step: async () => {
          const step = (await trl.ask({})) as Omit<LoopStep, 'training' | 'publishing' | 'waiting' | 'meanGap'>;
          const training = step.total - step.sampling;
          return {
            ...step,
            training,
            publishing: 0,
            waiting: waitingOf(step.total, [step.sampling, training]),
            meanGap: null,
          };
        },
        close,
      };
    },
  };
}
