import { OrtPolicyModel } from '@trainyard/trainer';
import { DEFAULT_LORA_CONFIG, type WeightsMode } from '@trainyard/transformer';

import { DEFAULT_SHAPE, group, openTrainingBench } from '../training.ts';

/** Training steps in both modes, in this process. */
export async function trainerTimes(modelPath: string, modes: readonly WeightsMode[]) {
  const opened = new Map<WeightsMode, Awaited<ReturnType<typeof openTrainingBench>>>();
  for (const weights of modes) {
    const policy = await OrtPolicyModel.load({ modelPath, lora: DEFAULT_LORA_CONFIG, numThreads: 2, weights });
    opened.set(weights, await openTrainingBench(policy));
  }
  return {
    /** @returns seconds */
    step: async (mode: WeightsMode, seed: number) => (await opened.get(mode)!.step([group(seed, DEFAULT_SHAPE)])).total,
    close: () => {
      for (const bench of opened.values()) bench.close();
    },
  };
}
