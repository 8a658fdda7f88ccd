import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LlamaAdapter, LlamaContext, LlamaModel } from '@trainyard/native';
import { renderHistory, type HistoryItem, type TrainingSequence } from '@trainyard/tokenizer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DEFAULT_LORA_CONFIG } from '@trainyard/transformer';
import { testModel } from '../../../../tests/support/model.ts';
import { checkpointDigest, readCheckpoint } from '../checkpoint/checkpoint.ts';
import { resolveTrainingConfig, type TrainingConfigInput } from '../config/training-config.ts';
import { openTrainer, type Trainer } from '../learner/open-trainer.ts';
import { localParts } from '../testing/local-parts.ts';
import { packRows } from '../packing/pack.ts';
import { seededRandom } from '../packing/random.ts';
import { runTrainingJob } from './run-training-job.ts';
import type { TrainerEvent, TrainingResult } from './training-job.ts';
import type { Trajectory, TrajectoryGroup } from '../rollouts/trajectory.ts';

const NUM_ROLLOUTS = 6;
const MAX_ANSWER_TOKENS = 10;
const LORA = { ...DEFAULT_LORA_CONFIG, initSeed: 11 };

let trainer: Trainer;
let model: LlamaModel;
let context: LlamaContext;
let groups: TrajectoryGroup[];
const directory = mkdtempSync(join(tmpdir(), 'train-model-'));

beforeAll(async () => {
  const { f16 } = testModel();
  const started = performance.now();
  trainer = await openTrainer({ modelPath: f16, numThreads: 1 });
  console.log(`opened the trainer in ${((performance.now() - started) / 1000).toFixed(1)} s`);
  model = LlamaModel.load(f16);
  context = new LlamaContext(model, { contextTokens: 1024, maxSequences: 1, batchTokens: 512, numThreads: 1 });
  // The reward is the share of short words; any value that varies between answers works.
  groups = ['Say yes, no or maybe.', 'Name a colour.'].map((question) => ({
    trajectories: Array.from({ length: NUM_ROLLOUTS }, (_, i) => rollout(question, i)),
    numExceptions: 0,
  }));
}, 300_000);

afterAll(() => {
  context.close();
  model.close();
  trainer.close();
  rmSync(directory, { recursive: true });
});

/** One answer at temperature 1. */
function rollout(question: string, seed: number): Trajectory {
  const user = { role: 'user', content: question };
  const prompt = trainer.template.render([user]).tokenIds;
  const random = seededRandom(seed * 100 + question.length);
  const tokenIds: number[] = [];
  const logprobs: number[] = [];
  let logits = lastLogits(prompt, 0);
  while (tokenIds.length < MAX_ANSWER_TOKENS) {
    const logNormalizer = logSumExp(logits);
    let left = random();
    let id = 0;
    while (id < logits.length - 1 && (left -= Math.exp(logits[id]! - logNormalizer)) > 0) id++;
    tokenIds.push(id);
    logprobs.push(logits[id]! - logNormalizer);
    if (model.isEndOfGeneration(id)) break;
    logits = lastLogits(Int32Array.of(id), prompt.length + tokenIds.length - 1);
  }
  const content = trainer.template.tokenizer.decode(tokenIds, { skipSpecial: true });
  const choice: HistoryItem = {
    kind: 'choice',
    message: { role: 'assistant', content },
    tokenIds: Int32Array.from(tokenIds),
    logprobs: Float32Array.from(logprobs),
  };
  const reward = 1 / (1 + content.length);
  return { reward, histories: [{ items: [{ kind: 'message', message: user }, choice], tools: null }] };
}

function lastLogits(tokenIds: Int32Array, fromPosition: number): Float32Array {
  context.removeSequence(0, fromPosition);
  context.batch.clear();
  tokenIds.forEach((id, i) => context.batch.add(id, fromPosition + i, 0, i === tokenIds.length - 1));
  context.decode();
  return context.logits().slice();
}

function logSumExp(logits: Float32Array): number {
  const max = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  return max + Math.log(logits.reduce((total, logit) => total + Math.exp(logit - max), 0));
}

async function run(
  name: string,
  input: TrainingConfigInput,
  startFrom: string | null = null,
  stopAfterStep = Infinity,
): Promise<{ result: TrainingResult; events: TrainerEvent[] }> {
  const events: TrainerEvent[] = [];
  const controller = new AbortController();
  const emit = (event: TrainerEvent): void => {
    events.push(event);
    if (event.kind === 'gradient_step' && event.index === stopAfterStep) controller.abort();
  };
  const result = await runTrainingJob(
    {
      jobId: name,
      groups,
      config: resolveTrainingConfig(input),
      lora: LORA,
      startFrom,
      snapshots: join(directory, `${name}-work`),
      output: join(directory, name),
      seed: 1,
    },
    {
      ...localParts({ policy: await trainer.policy(LORA) }),
      template: trainer.template,
      signal: controller.signal,
      emit,
    },
  );
  return { result, events };
}

/** Uses llama.cpp's current setup. */
function llamaLogprobs({ tokenIds, lossMask }: TrainingSequence): number[] {
  context.removeSequence(0, 0);
  context.batch.clear();
  tokenIds.forEach((id, i) => context.batch.add(id, i, 0, lossMask[i + 1] === 1));
  context.decode();
  const rows = context.logits();
  const trained = [...tokenIds].filter((_, i) => lossMask[i] === 1);
  return trained.map((id, row) => {
    const logits = rows.subarray(row * model.vocabSize, (row + 1) * model.vocabSize);
    return logits[id]! - logSumExp(logits);
  });
}

const meanDifference = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((total, value, i) => total + Math.abs(value - b[i]!) / a.length, 0);

describe('a job on the real model', () => {
  // One gradient step per group, of several rows: 64 tokens hold the prompt and three answers at most.
  const config: TrainingConfigInput = { learningRate: 5e-4, packedSequenceLength: 64, gradientSteps: 2 };

  it('agrees with the sampler, trains, and gives the same digest for the same seed', async () => {
    const { result, events } = await run('first', config);
    const steps = events.filter((event) => event.kind === 'gradient_step');
    for (const { index, metrics } of steps) {
      const shown = [
        'policy_loss',
        'grad_norm',
        'probs_corr',
        'logprob_gap_mean',
        'kl_sampler',
        'ratio_max',
        'num_row_tokens',
      ];
      const numbers = [...shown, 'seconds_forward', 'seconds_backward', 'seconds_optimizer', 'tokens_per_second'].map(
        (key) => `${key} ${metrics[key]!.toPrecision(4)}`,
      );
      console.log(`step ${index}: ${numbers.join(', ')}`);
    }
    expect(steps.length).toBe(result.numGradientSteps);
    expect(steps.length).toBe(2);
    for (const { metrics } of steps) expect(metrics['num_rows']).toBeGreaterThan(1);
    // Before the first step both sides compute the same policy, one in half and one in single precision.
    expect(steps[0]!.metrics['logprob_gap_mean']).toBeLessThan(0.01);
    expect(steps[0]!.metrics['probs_corr']).toBeGreaterThan(0.99);
    for (const { metrics } of steps) expect(metrics['grad_norm']).toBeGreaterThan(0);

    const again = await run('again', config);
    expect(again.result.digest).toBe(result.digest);
    console.log(`digest of both runs ${result.digest}`);
  }, 600_000);

  it('continues after being cut off, to the same digest', async () => {
    await expect(run('resumed', config, null, 0)).rejects.toMatchObject({ code: 'trainer.cancelled' });
    expect(readdirSync(directory)).not.toContain('resumed');
    const { result, events } = await run('resumed', config);
    expect(result.digest).toBe(checkpointDigest(join(directory, 'first')));
    expect(events.filter(({ kind }) => kind === 'gradient_step')).toHaveLength(result.numGradientSteps);
  }, 600_000);

  it('writes an adapter with which llama.cpp and the trainer agree', async () => {
    const { result } = await run('second', { learningRate: 2e-3 }, join(directory, 'first'));
    expect(result.digest).not.toBeNull();
    expect(readdirSync(join(directory, 'second'))).toContain('adapter.gguf');
    const sequences = groups.flatMap(({ trajectories }) =>
      trajectories.flatMap(({ histories }) => histories.flatMap(({ items }) => renderHistory(trainer.template, items))),
    );
    const base = sequences.flatMap(llamaLogprobs);
    const adapter = LlamaAdapter.load(model, join(directory, 'second', 'adapter.gguf'));
    context.setAdapter(adapter);
    const served = sequences.flatMap(llamaLogprobs);
    context.setAdapter(null);
    adapter.close();

    const policy = await trainer.policy({ ...LORA, initSeed: 999 });
    readCheckpoint(join(directory, 'second'), policy.lora);
    const trained: number[] = [];
    for (const [groupIndex, sequence] of sequences.entries()) {
      const [row] = packRows(
        [{ ...sequence, groupIndex, trajectoryIndex: 0, sequenceIndex: 0, advantage: 1, weight: 1 }],
        1024,
        0,
      );
      trained.push(...(await policy.forward(row!.row)).logprobs);
    }
    const gap = meanDifference(served, trained);
    const change = meanDifference(served, base);
    console.log(
      `${served.length} tokens: mean |Δlogprob| llama.cpp to trainer ${gap.toFixed(5)}, adapter to base ${change.toFixed(3)}`,
    );
    expect(gap).toBeLessThan(0.01);
    expect(change).toBeGreaterThan(0.1); // or the comparison would prove nothing
  }, 600_000);
});
