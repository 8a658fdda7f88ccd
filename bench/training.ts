import {
  adamWStep,
  DEFAULT_LORA_CONFIG,
  freshOptimizerState,
  gradientNorm,
  OrtPolicyModel,
  packRows,
  resolveTrainingConfig,
  type CreditedSequence,
} from '@trainyard/trainer';

import { defaultModelPath } from '../scripts/own-service.ts';

const GROUP_SIZE = 8;
const PROMPT_TOKENS = 384;
const COMPLETION_TOKENS = 64;

export interface TrainingBench {
  /** tokens a second, all tokens of the 8 sequences counted */
  sharedPrefix(seed: number): Promise<number>;
  separate(seed: number): Promise<number>;
  close(): void;
}

/** The trainer alone, in this process: no service, no arbiter. */
export async function openTrainingBench(): Promise<TrainingBench> {
  const model = await OrtPolicyModel.load({ modelPath: defaultModelPath(), lora: DEFAULT_LORA_CONFIG, numThreads: 2 });
  const optimizer = freshOptimizerState(model.lora.tensors);
  const config = resolveTrainingConfig({ learningRate: 1e-6 });

  const train = async (rows: readonly CreditedSequence[][]): Promise<number> => {
    const startedAt = performance.now();
    for (const sequences of rows) {
      const [packed] = packRows(sequences, 4096, 0);
      if (packed === undefined) throw new Error('nothing was packed');
      const { logprobs } = await model.forward(packed.row, { keepForBackward: true });
      await model.backward(Float32Array.from(logprobs, () => -1 / logprobs.length));
      adamWStep(model.lora.tensors, optimizer, gradientNorm(model.lora.tensors), config);
      for (const { gradient } of model.lora.tensors) gradient.fill(0);
    }
    return (GROUP_SIZE * (PROMPT_TOKENS + COMPLETION_TOKENS)) / ((performance.now() - startedAt) / 1000);
  };
  return {
    sharedPrefix: (seed) => train([group(seed)]),
    separate: (seed) => train(group(seed).map((sequence) => [sequence])),
    close: () => model.close(),
  };
}

/** Eight sequences of one prompt with random tokens; what they say does not change what they cost. */
function group(seed: number): CreditedSequence[] {
  let state = seed >>> 0;
  const randomToken = () => 100 + ((state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) % 40_000);
  const prompt = Array.from({ length: PROMPT_TOKENS }, randomToken);
  return Array.from({ length: GROUP_SIZE }, (_, trajectoryIndex) => {
    const completion = Array.from({ length: COMPLETION_TOKENS }, randomToken);
    const tokenIds = Int32Array.from([...prompt, ...completion]);
    return {
      groupIndex: 0,
      trajectoryIndex,
      tokenIds,
      lossMask: Uint8Array.from(tokenIds, (_id, index) => Number(index >= PROMPT_TOKENS)),
      oldLogprobs: new Float32Array(tokenIds.length).fill(-1),
      advantage: trajectoryIndex % 2 === 0 ? 1 : -1,
      weight: 1,
    };
  });
}
