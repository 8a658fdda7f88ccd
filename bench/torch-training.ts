import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { CreditedSequence } from '@trainyard/trainer';

import type { LlamaConfig } from './base-weights.ts';

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
  const child = spawn(python, [script, weightsPath, JSON.stringify(config), dtype, String(numThreads)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async (): Promise<unknown> => {
    const { value, done } = await lines.next();
    if (done === true) throw new Error('the PyTorch process ended');
    return JSON.parse(value) as unknown;
  };
  const { ready } = (await answer()) as { ready: string };
  return {
    version: ready,
    step: async (mode, sequences, prompt) => {
      const command = { mode, prompt, sequences: sequences.map(({ tokenIds }) => [...tokenIds]) };
      child.stdin.write(`${JSON.stringify(command)}\n`);
      return (await answer()) as TorchStep;
    },
    close: () => child.stdin.end(),
  };
}
