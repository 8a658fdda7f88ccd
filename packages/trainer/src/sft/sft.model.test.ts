import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LlamaAdapter, LlamaContext, LlamaModel } from '@trainyard/native';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { DEFAULT_LORA_CONFIG } from '@trainyard/transformer';
import { testModel } from '../../../../tests/support/model.ts';
import { checkpointDigest } from '../checkpoint/checkpoint.ts';
import { openTrainer, type Trainer } from '../learner/open-trainer.ts';
import { localParts } from '../testing/local-parts.ts';
import type { TrainerEvent } from '../job/training-job.ts';
import { runSftJob } from './run-sft-job.ts';
import { resolveSftConfig, type SftConfigInput } from './sft-config.ts';
import type { SftExample } from './sft-example.ts';

const LORA = { ...DEFAULT_LORA_CONFIG, initSeed: 11 };
/** Answers that no model would guess. */
const FACTS = [
  ['What is the capital of Zubrovia?', 'Kelmar.'],
  ['Who wrote The Glass Heron?', 'Ilse Ottaway.'],
  ['What do Zubrovians drink?', 'Hot plum tea.'],
] as const;
const EXAMPLES: SftExample[] = FACTS.map(([question, reply]) => ({
  messages: [
    { role: 'user', content: question },
    { role: 'assistant', content: reply },
  ],
  tools: null,
}));

let trainer: Trainer;
let model: LlamaModel;
let context: LlamaContext;
const directory = mkdtempSync(join(tmpdir(), 'sft-model-'));

beforeAll(async () => {
  const { f16 } = testModel();
  trainer = await openTrainer({ modelPath: f16, numThreads: 1 });
  model = LlamaModel.load(f16);
  context = new LlamaContext(model, { contextTokens: 512, maxSequences: 1, batchTokens: 256, numThreads: 1 });
}, 300_000);

afterAll(() => {
  context.close();
  model.close();
  trainer.close();
  rmSync(directory, { recursive: true });
});

/** Uses llama.cpp's current setup. */
function greedyAnswer(question: string): string {
  context.removeSequence(0, 0);
  const tokenIds: number[] = [];
  let input = trainer.template.render([{ role: 'user', content: question }]).tokenIds;
  let position = 0;
  while (tokenIds.length < 16) {
    context.batch.clear();
    input.forEach((id, i) => context.batch.add(id, position + i, 0, i === input.length - 1));
    context.decode();
    position += input.length;
    const logits = context.logits();
    const best = logits.reduce((top, logit, id) => (logit > logits[top]! ? id : top), 0);
    if (model.isEndOfGeneration(best)) break;
    tokenIds.push(best);
    input = Int32Array.of(best);
  }
  return trainer.template.tokenizer.decode(tokenIds, { skipSpecial: true });
}

async function run(name: string, input: SftConfigInput, stopAfterStep = Infinity) {
  const losses: number[] = [];
  const controller = new AbortController();
  const emit = (event: TrainerEvent): void => {
    if (event.kind !== 'gradient_step') return;
    losses[event.index] = event.metrics['loss']!;
    if (event.index === stopAfterStep) controller.abort();
  };
  const result = await runSftJob(
    {
      jobId: name,
      examples: EXAMPLES,
      config: resolveSftConfig(input, { maxSequenceLength: 2048 }),
      lora: LORA,
      startFrom: null,
      snapshots: join(directory, `${name}-work`),
      output: join(directory, name),
    },
    {
      ...localParts({ policy: await trainer.policy(LORA) }),
      template: trainer.template,
      signal: controller.signal,
      emit,
    },
  );
  return { result, losses };
}

it('a few examples are learnt by heart, and llama.cpp answers with them under the adapter', async () => {
  const before = FACTS.map(([question]) => greedyAnswer(question));
  const started = performance.now();
  const { losses } = await run('facts', {
    batchSize: 3,
    epochs: 12,
    learningRate: 1e-3,
    learningRateSchedule: 'linear',
    learningRateWarmupSteps: 2,
  });
  console.log(
    `losses ${losses.map((loss) => loss.toFixed(2)).join(' ')} in ${((performance.now() - started) / 1000).toFixed(1)} s`,
  );
  expect(losses).toHaveLength(12);
  expect(losses.at(-1)).toBeLessThan(losses[0]! / 10);
  const adapter = LlamaAdapter.load(model, join(directory, 'facts', 'adapter.gguf'));
  context.setAdapter(adapter);
  const after = FACTS.map(([question]) => greedyAnswer(question));
  context.setAdapter(null);
  adapter.close();
  FACTS.forEach(([question], i) =>
    console.log(`${question} before: ${JSON.stringify(before[i])}, after: ${JSON.stringify(after[i])}`),
  );
  const answers = FACTS.map(([, reply]) => reply);
  expect(before).not.toEqual(answers);
  expect(after).toEqual(answers);
}, 600_000);

it('continues after being cut off, to the same digest', async () => {
  const settings: SftConfigInput = { batchSize: 2, epochs: 2, learningRate: 1e-3 };
  const { result } = await run('whole', settings);
  await expect(run('resumed', settings, 1)).rejects.toMatchObject({ code: 'trainer.cancelled' });
  const resumed = await run('resumed', settings);
  expect(resumed.losses).toHaveLength(4);
  expect(resumed.result.digest).toBe(result.digest);
  expect(checkpointDigest(join(directory, 'resumed'))).toBe(result.digest);
}, 600_000);
