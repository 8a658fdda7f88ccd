import { join } from 'node:path';
import type { CreditedSequence } from '@trainyard/trainer';

import type { LlamaConfig } from './base-weights.ts';
import { JsonLinesProcess } from './json-lines-process.ts';

export type TorchMode = 'packed' | 'separate';

interface TorchStep {
  readonly seconds: number;
  readonly logprobs: readonly number[];
  /** Peak of the process since its start. */
  readonly peakBytes: number;
}

/** A process that trains with PyTorch and peft. */
export interface TorchTraining {
  readonly version: string;
  step(mode: TorchMode, sequences: readonly CreditedSequence[], promptTokens: number): Promise<TorchStep>;
  close(): void;
}

export async function openTorchTraining(options: {
  readonly python: string;
  readonly weightsPath: string;
  readonly config: LlamaConfig;
  readonly dtype: 'float32' | 'bfloat16';
  readonly numThreads: number;
}): Promise<TorchTraining> {
  const { python, weightsPath, config, dtype, numThreads } = options;
  const script = join(import.meta.dirname, 'torch_training.py');
  const child = new JsonLinesProcess(python, [script, weightsPath, JSON.stringify(config), dtype, String(numThreads)]);
  const { ready } = (await child.answer()) as { ready: string };
  return {
    version: ready,
    step: async (mode, sequences, prompt) => {
      const command = { mode, prompt, sequences: sequences.map(({ tokenIds }) => [...tokenIds]) };
      return (await child.ask(command)) as TorchStep;
    },
    close: () => void child.close(),
  };
}
