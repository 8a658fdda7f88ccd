import { GgufFile, openBf16Library } from '@trainyard/native';
import {
  Bf16BlockMatrices,
  DEFAULT_LORA_CONFIG,
  EmbeddedLearner,
  LocalVersions,
  OrtPolicyModel,
  packRows,
  policyLoss,
  resolveTrainingConfig,
  type CreditedSequence,
  type GraphTiming,
  type TrainablePolicy,
} from '@trainyard/trainer';

import { readArchitecture, readWeightsExceptMatrices } from '@trainyard/transformer';

import { defaultModelPath } from '../scripts/own-service.ts';

/** A group of rollouts of one prompt. */
export interface GroupShape {
  readonly numSequences: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

export const DEFAULT_SHAPE: GroupShape = { numSequences: 8, promptTokens: 384, completionTokens: 64 };

/** Tokens of all sequences: the work of a trainer without sharing. */
export const numTokens = (shape: GroupShape): number =>
  shape.numSequences * (shape.promptTokens + shape.completionTokens);

/** Wall time of one step in seconds, and our part of it: packing, loss, optimizer. */
export interface StepTime {
  readonly total: number;
  readonly mathematics: number;
  /** One per trained token, in the order of the sequences. */
  readonly logprobs: Float32Array;
}

export interface TrainingBench {
  /** @param rows sequences that share a row; each row is forward, loss, backward and AdamW */
  step(rows: readonly (readonly CreditedSequence[])[]): Promise<StepTime>;
  /** Graph runs since the last call. */
  takeRuns(): readonly GraphTiming[];
  close(): void;
}

/** A policy with matrices in bf16, computed by that oneDNN. */
export function openBf16Policy(oneDnnPath: string): TrainablePolicy {
  using file = GgufFile.open(defaultModelPath());
  const architecture = readArchitecture(file);
  const bf16 = new Bf16BlockMatrices(file, architecture, openBf16Library(oneDnnPath, 1));
  const weights = readWeightsExceptMatrices(file, architecture);
  const policy = new OrtPolicyModel(architecture, weights, { lora: DEFAULT_LORA_CONFIG, numThreads: 2, bf16 });
  const close = policy.close.bind(policy);
  policy.close = () => {
    close();
    bf16.close();
  };
  return policy;
}

/**
 * Only the trainer, in this process: no service, no arbiter.
 * @param policy default: an ordinary one, which reports graph runs
 */
export async function openTrainingBench(policy?: TrainablePolicy): Promise<TrainingBench> {
  let runs: GraphTiming[] = [];
  const model =
    policy ??
    (await OrtPolicyModel.load({
      modelPath: defaultModelPath(),
      lora: DEFAULT_LORA_CONFIG,
      numThreads: 2,
      onRun: (run) => void runs.push(run),
    }));
  // The path of a job, so that the results include the interface.
  const learner = new EmbeddedLearner({ policy: model, versions: new LocalVersions() });
  // A rate of 0: every step computes the same policy, so that log-probabilities can be compared with others.
  const config = { ...resolveTrainingConfig({}), learningRate: 0 };

  return {
    step: async (rows) => {
      const startedAt = performance.now();
      let mathematics = 0;
      const own = <Result>(work: () => Result): Result => {
        const before = performance.now();
        const result = work();
        mathematics += performance.now() - before;
        return result;
      };
      const all: number[] = [];
      for (const sequences of rows) {
        const packed = own(() => packRows(sequences, 16_384, 0)[0]!);
        const [output] = await learner.forward([packed.row], { keep: 'gradients' });
        const { logprobs, entropies } = output!;
        const { gradient } = own(() =>
          policyLoss(
            {
              ...packed,
              newLogprobs: logprobs,
              precalculatedLogprobs: null,
              refLogprobs: null,
              entropies,
            },
            config,
          ),
        );
        await learner.backward([{ lossGradient: Float32Array.from(gradient), entropyGradient: null }]);
        const before = performance.now();
        await learner.step(config);
        mathematics += performance.now() - before;
        all.push(...logprobs);
      }
      return {
        total: (performance.now() - startedAt) / 1000,
        mathematics: mathematics / 1000,
        logprobs: Float32Array.from(all),
      };
    },
    takeRuns: () => {
      const taken = runs;
      runs = [];
      return taken;
    },
    close: () => void learner.close(),
  };
}

/** Sequences of one prompt with random tokens, whose cost does not depend on their content. */
export function group(seed: number, shape: GroupShape): CreditedSequence[] {
  const { numSequences, promptTokens, completionTokens } = shape;
  let state = seed >>> 0;
  const randomToken = () => 100 + ((state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) % 40_000);
  const prompt = Array.from({ length: promptTokens }, randomToken);
  return Array.from({ length: numSequences }, (_, trajectoryIndex) => {
    const completion = Array.from({ length: completionTokens }, randomToken);
    const tokenIds = Int32Array.from([...prompt, ...completion]);
    return {
      groupIndex: 0,
      trajectoryIndex,
      sequenceIndex: 0,
      tokenIds,
      lossMask: Uint8Array.from(tokenIds, (_id, index) => Number(index >= Math.max(1, promptTokens))),
      oldLogprobs: new Float32Array(tokenIds.length).fill(-1),
      advantage: trajectoryIndex % 2 === 0 ? 1 : -1,
      weight: 1,
    };
  });
}
