import { ChatTemplate } from '@trainyard/tokenizer';
import { afterEach, expect, it } from 'vitest';
import { type Architecture, LINEAR_NAMES, linearNames, type LoraConfig } from '@trainyard/transformer';
import { randomSource, TINY_ARCHITECTURE, TINY_ARCHITECTURES, tinyWeights } from '@trainyard/transformer/testing';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';
import { randomizeAdapter } from '../testing/randomize-adapter.ts';
import { byteTemplate } from '../testing/chat-groups.ts';
import { localParts } from '../testing/local-parts.ts';
import { batchRows, sftBatches, type SftBatch } from './sft-batches.ts';
import { resolveSftConfig, type SftConfigInput } from './sft-config.ts';
import type { SftExample } from './sft-example.ts';
import { sftStep } from './sft-step.ts';

const LORA: LoraConfig = { rank: 3, alpha: 6, targets: LINEAR_NAMES, initSeed: 1 };
const ARCHITECTURE = { ...TINY_ARCHITECTURE, vocabSize: 259 };
const open: OrtPolicyModel[] = [];
afterEach(() => {
  while (open.length > 0) open.pop()!.close();
});

function tinyPolicy(architecture: Architecture = ARCHITECTURE): OrtPolicyModel {
  const random = randomSource(11);
  const lora = { ...LORA, targets: linearNames(architecture) };
  const model = new OrtPolicyModel(architecture, tinyWeights(architecture, random), { lora, numThreads: 1 });
  randomizeAdapter(model.lora, random);
  open.push(model);
  return model;
}

const turn = (question: string, answer: string): SftExample => ({
  messages: [
    { role: 'user', content: question },
    { role: 'assistant', content: answer },
  ],
  tools: null,
});
const EXAMPLES = [turn('hi', 'yes'), turn('hi', 'no way'), turn('ho', 'maybe')];

const config = (input: SftConfigInput = {}, maxSequenceLength = 2048) =>
  resolveSftConfig({ batchSize: 3, ...input }, { maxSequenceLength });

async function batchOf(examples: readonly SftExample[], settings = config(), template: ChatTemplate = byteTemplate) {
  const { signal } = new AbortController();
  return (await sftBatches(examples, { template, config: settings, signal })).batches[0]!;
}

const parts = (model: OrtPolicyModel, settings = config()) => {
  const { learner } = localParts({ policy: model });
  return { learner, config: settings, signal: new AbortController().signal };
};

/** Mean −log p over every answer byte and end token, without the trainer's rows, tries and masks. */
async function plainLoss(model: OrtPolicyModel, examples: readonly SftExample[]): Promise<number> {
  let sum = 0;
  let count = 0;
  for (const { messages } of examples) {
    const [question, answer] = messages.map(({ content }) => [...Buffer.from(content as string)]);
    const text = (value: string) => [...byteTemplate.tokenizer.encodeWithSpecial(value)];
    const prompt = [...text('<|im_start|>user\n'), ...question!, ...text('<|im_end|>\n<|im_start|>assistant\n')];
    const tokenIds = Int32Array.from([...prompt, ...answer!, ...text('<|im_end|>')]);
    const targets = tokenIds.slice(prompt.length);
    const { logprobs } = await model.forward({
      tokenIds,
      positions: tokenIds.map((_, i) => i),
      parents: tokenIds.map((_, i) => i - 1),
      sources: targets.map((_, i) => prompt.length - 1 + i),
      targets,
    });
    for (const logprob of logprobs) sum -= logprob;
    count += targets.length;
  }
  return sum / count;
}

it('the loss is the mean over the trained tokens of the batch, and its gradient equals finite differences', async () => {
  const model = tinyPolicy();
  const batch = await batchOf(EXAMPLES);
  const settings = config({ learningRate: 0 });
  const metrics = await sftStep(batch, 0, parts(model, settings));
  const plain = await plainLoss(model, EXAMPLES);
  console.log(
    `loss ${metrics['loss']}, written plainly ${plain}, difference ${Math.abs(metrics['loss']! - plain).toExponential(1)}`,
  );
  expect(Math.abs(metrics['loss']! - plain)).toBeLessThan(1e-5);
  expect(metrics).toMatchObject({
    num_trajectories: 3,
    num_trainable_tokens: 'yes!no way!maybe!'.length,
    num_dropped_trajectories: 0,
    learning_rate: 0,
  });

  const direction = randomSource(17);
  let norm = 0;
  for (const half of ['a', 'b'] as const) {
    const tensors = model.lora.tensors.filter((tensor) => tensor.half === half);
    const steps = tensors.map((tensor) => Float32Array.from(tensor.value, direction));
    const originals = tensors.map((tensor) => tensor.value.slice());
    let analytic = 0;
    tensors.forEach(({ gradient }, t) =>
      gradient.forEach((value, i) => {
        analytic += value * steps[t]![i]!;
        norm += value * value;
      }),
    );
    const shifted = async (epsilon: number) => {
      tensors.forEach(({ value }, t) =>
        value.forEach((_, i) => (value[i] = originals[t]![i]! + epsilon * steps[t]![i]!)),
      );
      return await plainLoss(model, EXAMPLES);
    };
    // Five points: truncation ε⁴, which hides float32 rounding.
    const epsilon = 4e-3;
    const near = (await shifted(epsilon)) - (await shifted(-epsilon));
    const far = (await shifted(2 * epsilon)) - (await shifted(-2 * epsilon));
    const numeric = (8 * near - far) / (12 * epsilon);
    await shifted(0);
    console.log(
      `half ${half}: ∂loss along a random direction, analytic ${analytic.toFixed(5)}, numeric ${numeric.toFixed(5)}`,
    );
    expect(Math.abs(analytic - numeric)).toBeLessThan(4e-3 * Math.max(1, Math.abs(analytic)));
  }
  expect(metrics['grad_norm']).toBeCloseTo(Math.sqrt(norm), 5);
});

it('conversations that share a row, or have rows of their own, or do not fit into one, give the same gradient', async () => {
  const gradients: number[][] = [];
  const numRows: number[] = [];
  const settings = [config(), config({ packing: false }), config({}, 45)];
  for (const variant of settings) {
    const model = tinyPolicy();
    const batch = await batchOf(EXAMPLES, variant);
    numRows.push(batchRows(batch, variant).length);
    await sftStep(batch, 0, parts(model, { ...variant, learningRate: 0 }));
    gradients.push(model.lora.tensors.flatMap(({ gradient }) => [...gradient]));
  }
  expect(numRows).toEqual([1, 3, 2]);
  const [first, ...others] = gradients;
  for (const other of others) {
    const difference = first!.reduce((max, value, i) => Math.max(max, Math.abs(value - other[i]!)), 0);
    console.log(`largest difference of a gradient ${difference.toExponential(1)}`);
    expect(difference).toBeLessThan(1e-5);
  }
  expect(Math.max(...first!.map(Math.abs))).toBeGreaterThan(1e-3);
});

it.each(Object.entries(TINY_ARCHITECTURES))(
  '%s: steps on the same batch halve its loss',
  async (name, architecture) => {
    const batch = await batchOf(EXAMPLES);
    const running = parts(tinyPolicy(architecture));
    const losses: number[] = [];
    for (let step = 0; step < 20; step++) losses.push((await sftStep(batch, 0.02, running))['loss']!);
    console.log(`${name}: ${losses.map((loss) => loss.toFixed(2)).join(' ')}`);
    expect(losses.at(-1)).toBeLessThan(losses[0]! / 2);
  },
);

it('a batch without anything to train changes nothing, not even the optimizer', async () => {
  const model = tinyPolicy();
  const before = model.lora.tensors.map(({ value }) => value.slice());
  const running = parts(model);
  const empty: SftBatch = { sequences: [], numTrajectories: 0, numDropped: 2 };
  expect(await sftStep(empty, 0.5, running)).toEqual({
    loss: 0,
    learning_rate: 0.5,
    grad_norm: 0,
    num_trajectories: 0,
    num_tokens: 0,
    num_trainable_tokens: 0,
    num_dropped_trajectories: 2,
    tokens_per_second: 0,
  });
  expect(model.lora.tensors.map(({ value }) => value)).toEqual(before);
  expect(running.learner.numSteps).toBe(0);
});
