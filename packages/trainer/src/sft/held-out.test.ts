import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LINEAR_NAMES, type LoraConfig } from '@trainyard/transformer';
import { plainLogprobs, randomSource, TINY_ARCHITECTURE, tinyWeights } from '@trainyard/transformer/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';
import type { TrainablePolicy } from '../model/policy-model.ts';
import { BIGRAM_LORA, BigramPolicy } from '../testing/bigram-policy.ts';
import { byteTemplate } from '../testing/chat-groups.ts';
import { localParts } from '../testing/local-parts.ts';
import type { HeldOutMeasures, TrainerEvent, TrainingParts } from '../job/training-job.ts';
import { heldOutLines, isMeasuredAfter } from './held-out.ts';
import { runSftJob, type SftJob } from './run-sft-job.ts';
import { resolveSftConfig, type SftConfigInput } from './sft-config.ts';
import type { SftExample } from './sft-example.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'held-out-'));
});
afterEach(() => rm(directory, { recursive: true }));

const turn = (question: string, reply: string | null): SftExample => ({
  messages: [{ role: 'user', content: question }, ...(reply === null ? [] : [{ role: 'assistant', content: reply }])],
  tools: null,
});
const TRAINED = ['one', 'two', 'three', 'four', 'five'].map((question) => turn(question, `${question}!`));
const OTHERS = ['six', 'seven', 'eight'].map((question) => turn(question, `${question}?`));
const OWN_DATA = { from: 'own_data', numLines: TRAINED.length } as const;

async function run(
  input: SftConfigInput,
  {
    name = 'out',
    policy = new BigramPolicy(),
    stopAt = () => false,
    ...job
  }: Partial<SftJob> & {
    readonly name?: string;
    readonly policy?: TrainablePolicy;
    readonly stopAt?: (event: TrainerEvent) => boolean;
  } = {},
) {
  const events: TrainerEvent[] = [];
  const controller = new AbortController();
  const parts: TrainingParts = {
    ...localParts({ policy }),
    template: byteTemplate,
    signal: controller.signal,
    emit: (event) => {
      events.push(event);
      if (stopAt(event)) controller.abort();
    },
  };
  const running = runSftJob(
    {
      jobId: 'job',
      examples: [...TRAINED, ...OTHERS],
      heldOut: OWN_DATA,
      config: resolveSftConfig({ learningRate: 0.01, ...input }, { maxSequenceLength: 1000 }),
      lora: BIGRAM_LORA,
      startFrom: null,
      snapshots: join(directory, `work-${name}`),
      output: join(directory, name),
      ...job,
    },
    parts,
  );
  const result = await running.catch((error: unknown) => {
    if (controller.signal.aborted) return null;
    throw error;
  });
  return { events, digest: result?.digest ?? null, metrics: result?.metrics ?? {} };
}

const measured = (events: readonly TrainerEvent[]): [numSteps: number, measures: HeldOutMeasures][] =>
  events
    .flatMap((event) => (event.kind === 'held_out' ? [[event.numSteps, event.measures] as const] : []))
    .map(([numSteps, measures]) => [numSteps, { ...measures, seconds: 0 }]);
const losses = (events: readonly TrainerEvent[]) => measured(events).map(([numSteps, { loss }]) => [numSteps, loss]);

describe('the held-out loss', () => {
  it('is the training loss if the held-out data are the training data, before each gradient step', async () => {
    const { events, metrics } = await run(
      { batchSize: 5, epochs: 4, heldOutEvery: 1 },
      { examples: [...TRAINED, ...TRAINED] },
    );
    const trained = events.flatMap((event) => (event.kind === 'gradient_step' ? [event.metrics['loss']!] : []));
    expect(losses(events).slice(0, 4)).toEqual(trained.map((loss, index) => [index, loss]));
    expect(metrics['held_out/loss']).toBe(losses(events)[4]![1]);
    expect(metrics['held_out/loss']).toBeLessThan(trained[3]!);
  });

  it('equals that of the float64 twin at the start, and of plain forward passes of the trained weights at the end', async () => {
    const architecture = { ...TINY_ARCHITECTURE, vocabSize: 259 };
    const weights = tinyWeights(architecture, randomSource(11));
    const lora: LoraConfig = { rank: 3, alpha: 6, targets: LINEAR_NAMES, initSeed: 1 };
    const policy = new OrtPolicyModel(architecture, weights, { lora, numThreads: 1 });
    const { events } = await run({ epochs: 2, learningRate: 0.02 }, { policy, lora });
    const text = (value: string) => [...byteTemplate.tokenizer.encodeWithSpecial(value)];
    const replies = OTHERS.map(({ messages: [question, answer] }) => {
      const prompt = text(`<|im_start|>user\n${question!.content as string}<|im_end|>\n<|im_start|>assistant\n`);
      return { prompt, tokens: [...prompt, ...text(`${answer!.content as string}<|im_end|>`)] };
    });
    const mean = (values: readonly number[]) => -values.reduce((sum, value) => sum + value, 0) / values.length;
    const twin = replies.flatMap(({ prompt, tokens }) => {
      const logprobs = plainLogprobs(architecture, weights, tokens);
      return tokens.slice(prompt.length).map((token, i) => logprobs[prompt.length - 1 + i]![token]!);
    });
    const after: number[] = [];
    for (const { prompt, tokens } of replies) {
      const tokenIds = Int32Array.from(tokens);
      const targets = tokenIds.slice(prompt.length);
      const { logprobs } = await policy.forward({
        tokenIds,
        positions: tokenIds.map((_, i) => i),
        parents: tokenIds.map((_, i) => i - 1),
        sources: targets.map((_, i) => prompt.length - 1 + i),
        targets,
      });
      after.push(...logprobs);
    }
    policy.close();
    const all = measured(events);
    const gaps = [all[0]![1].loss - mean(twin), all.at(-1)![1].loss - mean(after)].map(Math.abs);
    console.log(
      `held-out loss ${all.map(([, { loss }]) => loss.toFixed(4)).join(' ')}; differences ${gaps.join(', ')}`,
    );
    expect(all[0]![1].num_trainable_tokens).toBe(twin.length);
    expect(Math.max(...gaps)).toBeLessThan(1e-5);
    expect(all.at(-1)![1].loss).not.toBe(all[0]![1].loss);
  });

  it('changes no weight', async () => {
    const without = await run({ epochs: 2 }, { name: 'without', examples: TRAINED, heldOut: null });
    const withIt = await run({ epochs: 2, heldOutEvery: 1 }, { name: 'with' });
    expect(withIt.digest).toBe(without.digest);
    expect(measured(without.events)).toEqual([]);
    expect(without.metrics).not.toHaveProperty('held_out/loss');
  });

  it('is measured at the start, at each tenth and at the end, or every so many gradient steps', async () => {
    const times = async (input: SftConfigInput) => measured((await run(input)).events).map(([numSteps]) => numSteps);
    expect(await times({ batchSize: 1, epochs: 5 })).toEqual([0, 3, 6, 9, 12, 15, 18, 21, 24, 25]);
    expect(await times({ heldOutEvery: 2 })).toEqual([0, 2, 3]);
    expect(await times({ heldOutEvery: 1000 })).toEqual([0, 3]);
    const numMeasured = (numSteps: number) =>
      Array.from({ length: numSteps + 1 }, (_, taken) =>
        isMeasuredAfter(taken, numSteps, { heldOutEvery: null }),
      ).filter(Boolean).length;
    for (const numSteps of [1, 9, 10, 11, 99, 12_345]) expect(numMeasured(numSteps)).toBeLessThanOrEqual(11);
  });

  it('continues after a cut with the same numbers, and repeats each in its place', async () => {
    const settings: SftConfigInput = { epochs: 2, heldOutEvery: 2 };
    const whole = await run(settings, { name: 'whole' });
    const order = (events: readonly TrainerEvent[]) =>
      events.flatMap((event) =>
        event.kind === 'held_out'
          ? [`after ${event.numSteps}`]
          : event.kind === 'gradient_step'
            ? [`${event.index}`]
            : [],
      );
    expect(order(whole.events)).toEqual('after 0,0,1,after 2,2,3,after 4,4,5,after 6'.split(','));
    for (let cut = 0; cut < order(whole.events).length; cut++) {
      const name = `cut-${cut}`;
      let numSeen = -1;
      const stopAt = ({ kind }: TrainerEvent) => (kind === 'held_out' || kind === 'gradient_step') && ++numSeen === cut;
      await run(settings, { name, stopAt });
      const resumed = await run(settings, { name });
      expect(order(resumed.events)).toEqual(order(whole.events));
      expect(measured(resumed.events)).toEqual(measured(whole.events));
      expect(resumed.digest).toBe(whole.digest);
      expect(resumed.metrics['held_out/loss']).toBe(whole.metrics['held_out/loss']);
    }
  });

  it('of a share is of lines that are not trained, and names a line by its place in the data', async () => {
    const source = { from: 'training_data', numLines: 5 } as const;
    const settings: SftConfigInput = { heldOutFraction: 0.4, batchSize: 1 };
    const { events } = await run(settings, { examples: TRAINED, heldOut: source });
    expect(events[0]).toMatchObject({
      data: {
        num_sequences: 3,
        num_trajectories_submitted: 3,
        num_trajectories_held_out: 2,
        num_trajectories_measured: 2,
        dropped_held_out_trajectories: {},
      },
    });
    expect(measured(events)[0]![1].num_trajectories).toBe(2);
    const [line] = heldOutLines(5, resolveSftConfig(settings, { maxSequenceLength: 10 }));
    const broken = TRAINED.map((example, index) =>
      index === line ? { ...example, messages: [{ role: 'assistant', content: [{ type: 'image' }] }] } : example,
    );
    await expect(run(settings, { examples: broken, heldOut: source })).rejects.toThrow(`conversation ${line! + 1}: `);
    const ownBroken = [...TRAINED, ...OTHERS.slice(0, 1), broken[line!]!];
    await expect(run({}, { examples: ownBroken })).rejects.toThrow('held-out conversation 2: ');
  });

  it('has a warning and no value if no held-out conversation can be measured', async () => {
    const { events, metrics } = await run({}, { examples: [...TRAINED, turn('six', null)] });
    expect(measured(events)).toEqual([]);
    expect(metrics).not.toHaveProperty('held_out/loss');
    const warnings = events.flatMap((event) => (event.kind === 'warning' ? [event.warning] : []));
    expect(warnings).toContainEqual(
      expect.objectContaining({
        code: 'nothing_held_out',
        message:
          'the held-out loss is not measured: none of 1 held-out conversations can be used (1 no_trainable_tokens)',
      }),
    );
  });
});

describe('heldOutLines', () => {
  const lines = (numLines: number, input: SftConfigInput) =>
    heldOutLines(numLines, resolveSftConfig(input, { maxSequenceLength: 10 }));

  it('are as many as the share, the same for a seed, and others for another', () => {
    expect(lines(1000, { heldOutFraction: 0.05 }).size).toBe(50);
    expect(lines(1000, { heldOutFraction: 0.5 }).size).toBe(100);
    expect(lines(1000, { heldOutFraction: 0.5, heldOutExamples: 1000 }).size).toBe(500);
    expect(lines(3, { heldOutFraction: 1e-9 }).size).toBe(1);
    expect(lines(3, {}).size).toBe(0);
    expect(lines(1000, { heldOutFraction: 0.05 })).toEqual(lines(1000, { heldOutFraction: 0.05 }));
    expect(lines(1000, { heldOutFraction: 0.05 })).not.toEqual(lines(1000, { heldOutFraction: 0.05, heldOutSeed: 1 }));
    expect(Math.max(...lines(1000, { heldOutFraction: 0.05 }))).toBeGreaterThan(500);
  });

  it('leave something to train', () => {
    const refusal = (numLines: number) =>
      `\`held_out_fraction\` 0.9 leaves nothing to train of ${numLines} ${numLines === 1 ? 'conversation' : 'conversations'}`;
    for (const numLines of [1, 2]) expect(() => lines(numLines, { heldOutFraction: 0.9 })).toThrow(refusal(numLines));
    expect(() => lines(5, { heldOutFraction: 1 })).toThrow(
      '`held_out_fraction` must be a finite number in (0, 1), got 1',
    );
  });
});
