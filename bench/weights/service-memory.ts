import { readFileSync } from 'node:fs';

import { leastSamplingBytes } from '@trainyard/engine';
import { GgufFile } from '@trainyard/native';
import { Trainyard } from '@trainyard/sdk';
import { gatherGroup } from '@trainyard/sdk/rollouts';
import { memoryBudget, predictTraining, totalTrainingBytes } from '@trainyard/trainer';
import { readArchitecture, type WeightsMode } from '@trainyard/transformer';

import { ownService } from '../../scripts/own-service.ts';
import { processesBelow } from '../machine.ts';

/** One word of the random models and of the default one is about a token. */
const PROMPT = Array.from({ length: 350 }, (_, i) => ['sea', 'ship', 'log', 'tide', 'wind'][(i * i) % 5]).join(' ');
const NUM_SEQUENCES = 8;
const PROMPT_TOKENS = 384;
/** The process of the API. */
const SERVICE_BYTES = 275e6;

export interface ServiceMemory {
  readonly byProcess: readonly { readonly name: string; readonly bytes: number }[];
  /** Sum of the peaks of all processes: at least the peak of all together. */
  readonly peakBytes: number;
  readonly predictedBytes: number;
  readonly seconds: Readonly<Record<'sampling' | 'training', number>>;
}

export interface MemoryCase {
  readonly weights: WeightsMode;
  readonly completionTokens: number;
  /** Memory that the processes find in the machine. */
  readonly machineBytes: number;
}

/** Samples a group of eight and trains it on a service of its own. */
export async function measureMemory(modelPath: string, options: MemoryCase): Promise<ServiceMemory> {
  const { weights, completionTokens, machineBytes } = options;
  const environment = {
    TRAINYARD_MODEL: modelPath,
    TRAINYARD_MODEL_ID: 'base',
    TRAINYARD_WEIGHTS: weights,
    NODE_OPTIONS: `--import=data:text/javascript,process.constrainedMemory=()=>${machineBytes}`,
  };
  const service = await ownService({ environment });
  try {
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, timeoutMs: 3_600_000 });
    const model = await client.models.register({ project: 'bench', name: 'weights', base_model: 'base' });
    const startedAt = performance.now();
    const { group } = await gatherGroup(
      client,
      {
        model: `${model.entity}/${model.project}/${model.name}`,
        messages: [{ role: 'user', content: PROMPT }],
        n: NUM_SEQUENCES,
        max_tokens: completionTokens,
        ignore_eos: true,
        seed: 1,
      },
      (choice) => choice.index,
    );
    const sampledAt = performance.now();
    const job = await client.trainingJobs.create({
      model_id: model.id,
      trajectory_groups: [group],
      experimental_config: { learning_rate: 1e-4 },
    });
    await client.trainingJobs.gradientSteps(job.id);
    const trainedAt = performance.now();
    const byProcess = processesBelow([service.pid]).map((pid) => ({ name: nameOf(pid), bytes: peakOf(pid) }));
    return {
      byProcess,
      peakBytes: byProcess.reduce((sum, { bytes }) => sum + bytes, 0),
      predictedBytes: predicted(modelPath, options),
      seconds: { sampling: (sampledAt - startedAt) / 1000, training: (trainedAt - sampledAt) / 1000 },
    };
  } finally {
    await service.close();
  }
}

function predicted(modelPath: string, { weights, completionTokens, machineBytes }: MemoryCase): number {
  const numTokens = PROMPT_TOKENS + NUM_SEQUENCES * completionTokens;
  using file = GgufFile.open(modelPath);
  const { numLayers, numKvHeads, headSize } = readArchitecture(file);
  const cacheBytes = 2 * 4 * numLayers * numKvHeads * headSize * numTokens;
  const training = predictTraining(modelPath, {
    weights,
    numThreads: 2,
    numTokens,
    memoryBudgetBytes: memoryBudget(machineBytes),
  })!;
  return SERVICE_BYTES + leastSamplingBytes(file)[weights] + cacheBytes + totalTrainingBytes(training.memory);
}

const nameOf = (pid: number): string =>
  /([a-z-]+)\.ts/.exec(readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '))?.[1] ?? String(pid);

/** Highest resident memory so far, of this process alone; file pages that it maps are included. */
const peakOf = (pid: number): number =>
  1024 * Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
