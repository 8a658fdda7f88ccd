import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { resolveTrainingConfig, type TrainingConfigInput } from '../config/training-config.ts';
import { BIGRAM_LORA, BigramPolicy } from '../testing/bigram-policy.ts';
import { answer, byteTemplate, group, twoTurns } from '../testing/chat-groups.ts';
import { localParts } from '../testing/local-parts.ts';
import { ScriptedLearner } from '../testing/scripted-learner.ts';
import { runTrainingJob } from './run-training-job.ts';
import { decodeTokenTrace, encodeTokenTrace } from './token-trace.ts';
import { TraceFiles } from './trace-records.ts';
import type { TrainerEvent, TrainingJob, TrainingParts } from './training-job.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'traces-'));
});
afterEach(() => rm(directory, { recursive: true }));

// Two gradient steps of two groups each; one group teaches nothing.
const GROUPS = [
  ...['one', 'two', 'three', 'four'].map((question) =>
    group(answer(1, `${question} yes`, question), answer(0, `${question} no`, question)),
  ),
  group(answer(1, 'same', 'five'), answer(1, 'same', 'five')),
];

function job(config: TrainingConfigInput = {}): TrainingJob {
  return {
    jobId: 'job',
    groups: GROUPS,
    config: resolveTrainingConfig({ learningRate: 0.01, packedSequenceLength: 45, gradientSteps: 2, ...config }),
    lora: BIGRAM_LORA,
    startFrom: null,
    snapshots: join(directory, 'work'),
    output: join(directory, 'out'),
    seed: 5,
  };
}

async function run(
  overrides: Partial<TrainingParts> = {},
  config: TrainingConfigInput = {},
  own: Partial<TrainingJob> = {},
) {
  const events: TrainerEvent[] = [];
  const parts = {
    ...localParts({ policy: new BigramPolicy() }),
    template: byteTemplate,
    traces: new TraceFiles(),
    signal: new AbortController().signal,
    emit: (event: TrainerEvent) => void events.push(event),
    ...overrides,
  };
  await runTrainingJob({ ...job(config), ...own }, parts);
  return events;
}

const tracesOf = (events: readonly TrainerEvent[]) =>
  events.flatMap((event) =>
    event.kind === 'gradient_step'
      ? (event.traces ?? []).map(({ trace, ...place }) => ({
          index: event.index,
          ...place,
          sequences: decodeTokenTrace(trace),
        }))
      : [],
  );

it('each trained trajectory has its tokens, with the log-probabilities of the sampler and of the trainer', async () => {
  const traces = tracesOf(await run());
  expect(traces.map(({ groupIndex, trajectoryIndex }) => `${groupIndex}.${trajectoryIndex}`).toSorted()).toEqual([
    '0.0',
    '0.1',
    '1.0',
    '1.1',
    '2.0',
    '2.1',
    '3.0',
    '3.1',
  ]);
  expect(new Set(traces.map(({ index }) => index))).toEqual(new Set([0, 1]));
  const { tokenizer } = byteTemplate;
  for (const { groupIndex, trajectoryIndex, sequences } of traces) {
    const [sequence, ...others] = sequences;
    expect(others).toEqual([]);
    const { tokenIds, tokenBytes, sampledLogprobs, trainedLogprobs, advantage, weight } = sequence!;
    expect(tokenBytes.map((bytes) => [...bytes])).toEqual(Array.from(tokenIds, (id) => [...tokenizer.tokenBytes(id)]));
    const [item] = GROUPS[groupIndex]!.trajectories[trajectoryIndex]!.histories[0]!.items.filter(
      ({ kind }) => kind === 'choice',
    );
    if (item?.kind !== 'choice') throw new Error('an answer is a choice');
    const trained = Array.from(tokenIds.keys()).filter((i) => !Number.isNaN(trainedLogprobs[i]));
    expect(trained.map((i) => tokenIds[i])).toEqual([...item.tokenIds]);
    expect(trained.map((i) => sampledLogprobs[i])).toEqual([...item.logprobs]);
    expect(trained.every((i) => trainedLogprobs[i]! < 0)).toBe(true);
    expect(sampledLogprobs.filter((value) => !Number.isNaN(value))).toHaveLength(trained.length);
    expect(Math.sign(advantage)).toBe(trajectoryIndex === 0 ? 1 : -1);
    expect(weight).toBeGreaterThan(0);
  }
});

it('trained tokens have the entropies of the step, whose mean is its metric', async () => {
  const events = await run();
  const traces = tracesOf(events);
  for (const event of events) {
    if (event.kind !== 'gradient_step') continue;
    const ofStep = traces.filter(({ index }) => index === event.index).flatMap(({ sequences }) => sequences);
    const entropies = ofStep.flatMap((sequence) => [...sequence.entropies!].filter((value) => !Number.isNaN(value)));
    const numTrained = ofStep.flatMap((one) => [...one.trainedLogprobs].filter((value) => !Number.isNaN(value))).length;
    expect(entropies).toHaveLength(numTrained);
    const mean = entropies.reduce((sum, value) => sum + value, 0) / numTrained;
    console.log(`step ${event.index}: mean of the traced entropies ${mean}, metric ${event.metrics['entropy']}`);
    expect(mean).toBeCloseTo(event.metrics['entropy']!, 5);
  }
});

it('a trace of the first version, without entropies, is still read', () => {
  const traced = {
    tokenIds: Int32Array.of(5, 6),
    sampledLogprobs: Float32Array.of(Number.NaN, -0.5),
    trainedLogprobs: Float32Array.of(Number.NaN, -0.25),
    entropies: null,
    advantage: 1.5,
    weight: 0.5,
  };
  const texts = [Uint8Array.of(97), Uint8Array.of(98, 99)];
  const bytes = zstdDecompressSync(encodeTokenTrace([traced], (id) => texts[id - 5]!));
  // Header, header of the sequence, ids and two lists of log-probabilities; then the entropies.
  const at = 8 + 24 + 3 * 8;
  const old = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 8)]);
  old.writeUInt32LE(1, 0);
  for (const trace of [zstdCompressSync(bytes), zstdCompressSync(old)])
    expect(decodeTokenTrace(trace)).toEqual([{ ...traced, tokenBytes: texts }]);
});

it('the turns of a trajectory are reported in their order, across the histories that trained them', async () => {
  const groups = [group(...[1, 0].map((reward) => twoTurns(reward, [`${reward} yes `, 'so'])))];
  for (const seed of [1, 2, 3, 4]) {
    const traces = tracesOf(await run({}, { gradientSteps: 1, packedSequenceLength: 256 }, { groups, seed }));
    expect(traces).toHaveLength(2);
    for (const { trajectoryIndex, sequences } of traces) {
      const trained = sequences.map(({ tokenIds, trainedLogprobs }) =>
        byteTemplate.tokenizer.decode(
          tokenIds.filter((_, i) => !Number.isNaN(trainedLogprobs[i])),
          { skipSpecial: true },
        ),
      );
      expect(trained).toEqual([`${1 - trajectoryIndex} yes `, 'so']);
    }
  }
});

it('a remote learner is traced too, and without records nothing is', async () => {
  const elsewhere = tracesOf(await run({ learner: new ScriptedLearner() }));
  expect(elsewhere).toHaveLength(8);
  const events = await run({ traces: undefined } as never);
  expect(events.some((event) => event.kind === 'gradient_step' && event.traces !== undefined)).toBe(false);
});

it('a job that resumes after a crash reports the traces of its finished steps again', async () => {
  const controller = new AbortController();
  const first: TrainerEvent[] = [];
  const emit = (event: TrainerEvent) => {
    first.push(event);
    if (event.kind === 'gradient_step') controller.abort();
  };
  await expect(run({ signal: controller.signal, emit })).rejects.toMatchObject({ code: 'trainer.cancelled' });
  const again = await run();
  const ofFirstStep = (events: readonly TrainerEvent[]) => tracesOf(events).filter(({ index }) => index === 0);
  expect(ofFirstStep(first).length).toBeGreaterThan(0);
  expect(ofFirstStep(again)).toEqual(ofFirstStep(first));
  expect(tracesOf(again)).toHaveLength(8);
});

it('each submitted trajectory has its outcome, and its advantage in its group', async () => {
  const [started] = await run();
  if (started?.kind !== 'training_started') throw new Error('the events of a job start with its start');
  expect(started.outcomes?.map((group) => group.map(({ outcome }) => outcome))).toEqual([
    ...Array.from({ length: 4 }, () => ['trained', 'trained']),
    ['equal_rewards', 'equal_rewards'],
  ]);
  expect(started.outcomes?.[4]).toMatchObject([{ advantage: null }, { advantage: null }]);
  expect(started.outcomes?.[0]?.map(({ advantage }) => Math.round(advantage ?? 0))).toEqual([1, -1]);
});

it('a trace takes a few bytes a token', () => {
  const numTokens = 1000;
  const sampled = Float32Array.from({ length: numTokens }, (_, i) =>
    i < 600 ? Number.NaN : -Math.abs(Math.sin(i) * 3),
  );
  const trained = sampled.map((value) => value * 1.01);
  const sequence = {
    tokenIds: Int32Array.from({ length: numTokens }, (_, i) => (i * 7919) % 49_152),
    sampledLogprobs: sampled,
    trainedLogprobs: trained,
    entropies: trained.map((logprob) => -logprob),
    advantage: 0.5,
    weight: 1,
  };
  const tokenBytes = (id: number) => Buffer.from(`tok${id % 100}`);
  const trace = encodeTokenTrace([sequence, sequence], tokenBytes);
  console.log(
    `a trace: ${(trace.length / (2 * numTokens)).toFixed(1)} bytes per token, 2 × ${numTokens}, 400 of each trained`,
  );
  const [read, second] = decodeTokenTrace(trace);
  expect(second).toEqual(read);
  expect(read).toMatchObject({ ...sequence });
  expect(() => decodeTokenTrace(encodeTokenTrace([], tokenBytes).subarray(0, 3))).toThrow(/./);
});
