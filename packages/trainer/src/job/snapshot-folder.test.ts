import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { resolveTrainingConfig } from '../config/training-config.ts';
import { EmbeddedLearner } from '../learner/embedded-learner.ts';
import { LocalVersions } from '../learner/version-folders.ts';
import { resolveSftConfig } from '../sft/sft-config.ts';
import { runSftJob, type SftJob } from '../sft/run-sft-job.ts';
import { BIGRAM_LORA, BigramPolicy } from '../testing/bigram-policy.ts';
import { answer, byteTemplate, group } from '../testing/chat-groups.ts';
import { ProgressFiles } from './progress-records.ts';
import { runTrainingJob } from './run-training-job.ts';
import { linkSnapshot, placeSnapshot } from './snapshot-folder.ts';
import { TraceFiles } from './trace-records.ts';
import type { TrainerEvent, TrainingJob, TrainingParts } from './training-job.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'moving-'));
});
afterEach(() => rm(directory, { recursive: true }));

const BASE = { jobId: 'job', lora: BIGRAM_LORA, startFrom: null, snapshots: 'job', output: 'out' } as const;
const RL: TrainingJob = {
  ...BASE,
  groups: ['one', 'two', 'three', 'four', 'five'].map((question) =>
    group(answer(1, `${question} yes`, question), answer(0, `${question} no`, question)),
  ),
  config: resolveTrainingConfig({ learningRate: 0.01, packedSequenceLength: 45, stepPerRow: true }),
  seed: 5,
};
const SFT: SftJob = {
  ...BASE,
  examples: ['red', 'green', 'blue', 'black', 'white'].map((colour) => ({
    messages: [
      { role: 'user', content: 'which?' },
      { role: 'assistant', content: colour },
    ],
    tools: null,
  })),
  config: resolveSftConfig({ batchSize: 1, learningRate: 0.01 }, { maxSequenceLength: 1000 }),
};

function machine(name: string) {
  const root = join(directory, name);
  mkdirSync(root, { recursive: true });
  const events: TrainerEvent[] = [];
  const policy = new BigramPolicy();
  const parts = (overrides: Partial<TrainingParts> = {}): TrainingParts => ({
    learner: new EmbeddedLearner({ policy, versions: new LocalVersions(root) }),
    progress: new ProgressFiles(root),
    traces: new TraceFiles(root),
    template: byteTemplate,
    signal: new AbortController().signal,
    emit: (event) => void events.push(event),
    ...overrides,
  });
  return { root, place: { workDirectory: root, snapshots: 'job' }, events, policy, parts };
}

const run = {
  rl: (parts: TrainingParts) => runTrainingJob(RL, parts),
  sft: (parts: TrainingParts) => runSftJob(SFT, parts),
};

/** Omits times and memory of the machine. */
const stepsOf = (events: readonly TrainerEvent[]) =>
  events
    .filter((event) => event.kind === 'gradient_step')
    .map(({ index, metrics }) => ({
      index,
      metrics: Object.fromEntries(Object.entries(metrics).filter(([metric]) => !/second|memory/.test(metric))),
    }));

const withoutTraces = (events: readonly TrainerEvent[]) =>
  events.map((event) => (event.kind === 'gradient_step' ? { index: event.index, metrics: event.metrics } : event));

it.each(['rl', 'sft'] as const)(
  'a job of the kind %s continues on another machine from each of its snapshots, equal to the bit',
  async (kind) => {
    const whole = machine('whole');
    const expected = await run[kind](whole.parts());
    const numSteps = expected.numGradientSteps;
    expect(numSteps).toBeGreaterThan(3);
    for (let numDone = 1; numDone < numSteps; numDone++) {
      const [one, two] = [machine(`one-${numDone}`), machine(`two-${numDone}`)];
      const carried = join(directory, `carried-${numDone}`);
      const dies = run[kind](
        one.parts({
          emit: (event) => {
            one.events.push(event);
            if (event.kind !== 'gradient_step' || event.index + 1 !== numDone) return;
            expect(linkSnapshot(one.place, carried)).toBe(numDone);
            throw new Error('the power is gone');
          },
        }),
      );
      await expect(dies).rejects.toThrow('the power is gone');
      await rm(one.root, { recursive: true });

      expect(await placeSnapshot(carried, two.place)).toBe(true);
      const before = two.policy.numForwards;
      expect((await run[kind](two.parts())).digest).toBe(expected.digest);
      expect(stepsOf(two.events)).toEqual(stepsOf(whole.events));
      // Earlier events are repeated unchanged, including times.
      const isStep = ({ kind: event }: TrainerEvent) => event === 'gradient_step';
      expect(withoutTraces(two.events.filter(isStep).slice(0, numDone))).toEqual(
        withoutTraces(one.events.filter(isStep)),
      );
      console.log(
        `${kind}, moved after step ${numDone} of ${numSteps}: ${two.policy.numForwards - before} forward passes there, ${whole.policy.numForwards} in all`,
      );
      expect(two.policy.numForwards - before).toBeLessThan(whole.policy.numForwards);
    }
  },
);

it('there is none before the first step, and later steps of the job do not change a taken one', async () => {
  const here = machine('here');
  const carried = join(directory, 'carried');
  const taken: (number | null)[] = [];
  await run.rl(
    here.parts({
      emit: (event) => {
        if (event.kind === 'training_started' || (event.kind === 'gradient_step' && event.index === 1))
          taken.push(linkSnapshot(here.place, carried));
      },
    }),
  );
  expect(taken).toEqual([null, 2]);
  expect(existsSync(join(here.root, 'job', 'step-2'))).toBe(false);
  expect(readdirSync(carried).toSorted()).toEqual([
    'SHA256SUMS',
    'adapter_config.json',
    'adapter_model.safetensors',
    'digest',
    'optimizer.safetensors',
    'progress.json',
  ]);
  const there = machine('there');
  expect(await placeSnapshot(carried, there.place)).toBe(true);
  expect(readdirSync(join(there.root, 'job')).toSorted()).toEqual(['progress.json', 'step-2']);
});

it('a machine that has got as far keeps its own; one that has not lets its own go', async () => {
  const carry = async (numDone: number) => {
    const one = machine(`from-${numDone}`);
    const target = join(directory, `carried-${numDone}`);
    await run
      .rl(
        one.parts({
          emit: (event) => {
            if (event.kind !== 'gradient_step' || event.index + 1 !== numDone) return;
            linkSnapshot(one.place, target);
            throw new Error('enough');
          },
        }),
      )
      .catch(() => undefined);
    return target;
  };
  const [two, three] = [await carry(2), await carry(3)];
  const there = machine('there');
  expect(await placeSnapshot(two, there.place)).toBe(true);
  expect(await placeSnapshot(three, there.place)).toBe(true);
  expect(await placeSnapshot(three, there.place)).toBe(false);
  expect(await placeSnapshot(two, there.place)).toBe(false);
  expect(readdirSync(join(there.root, 'job')).toSorted()).toEqual(['progress.json', 'step-3']);
  await rm(join(there.root, 'job', 'step-3'), { recursive: true });
  expect(await placeSnapshot(two, there.place)).toBe(true);
});

it.each(['optimizer.safetensors', 'adapter_model.safetensors'])(
  'a damaged %s is not taken from the blobs, and a damaged one here is replaced',
  async (name) => {
    const here = machine('here');
    const carried = join(directory, 'carried-whole');
    await run.rl(
      here.parts({
        emit: (event) => {
          if (event.kind === 'gradient_step' && event.index === 1) linkSnapshot(here.place, carried);
        },
      }),
    );
    const there = machine('there');
    expect(await placeSnapshot(carried, there.place)).toBe(true);
    expect(await placeSnapshot(carried, there.place)).toBe(false);
    const own = join(there.root, 'job', 'step-2', name);
    const bytes = readFileSync(own);
    bytes[bytes.length - 5]! ^= 4;
    writeFileSync(own, bytes);
    expect(await placeSnapshot(carried, there.place)).toBe(true);
    expect(readFileSync(own)).toEqual(readFileSync(join(carried, name)));
    writeFileSync(join(carried, name), bytes);
    await expect(placeSnapshot(carried, machine('third').place)).rejects.toMatchObject({
      code: 'trainer.checkpoint_damaged',
      message: expect.stringContaining(`${name} is damaged`) as string,
    });
  },
);

it('a folder that is no snapshot of the job is refused', async () => {
  const there = machine('there');
  const empty = join(directory, 'empty');
  mkdirSync(empty);
  const refusal = { code: 'trainer.checkpoint_unreadable' };
  await expect(placeSnapshot(empty, there.place)).rejects.toMatchObject(refusal);
  const ofAnother = { fingerprint: 'f', version: 'another/step-1', stepMetrics: [{}] };
  writeFileSync(join(empty, 'progress.json'), JSON.stringify(ofAnother));
  await expect(placeSnapshot(empty, there.place)).rejects.toMatchObject(refusal);
  expect(readdirSync(there.root)).toEqual([]);
});
