import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { resolveTrainingConfig, type TrainingConfigInput } from '../config/training-config.ts';
import { TrainerError } from '../contract/errors.ts';
import { runSftJob } from '../sft/run-sft-job.ts';
import { resolveSftConfig } from '../sft/sft-config.ts';
import { BIGRAM_LORA } from '../testing/bigram-policy.ts';
import { answer, byteTemplate, group } from '../testing/chat-groups.ts';
import { ScriptedLearner } from '../testing/scripted-learner.ts';
import { ProgressFiles } from './progress-records.ts';
import { runTrainingJob } from './run-training-job.ts';
import type { TrainerEvent, TrainingJob } from './training-job.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'remote-learner-'));
});
afterEach(() => rm(directory, { recursive: true }));

// Six groups in two gradient steps, each of several rows.
const GROUPS = ['one', 'two', 'three', 'four', 'five', 'six'].map((question) =>
  group(answer(1, `${question} yes`, question), answer(0, `${question} no`, question)),
);

function job(config: TrainingConfigInput = {}, overrides: Partial<TrainingJob> = {}): TrainingJob {
  return {
    jobId: 'job',
    groups: GROUPS,
    config: resolveTrainingConfig({ learningRate: 0.05, packedSequenceLength: 45, gradientSteps: 2, ...config }),
    lora: BIGRAM_LORA,
    startFrom: null,
    snapshots: 'job',
    output: 'service://trained',
    seed: 3,
    ...overrides,
  };
}

function parts(learner: ScriptedLearner) {
  const events: TrainerEvent[] = [];
  return {
    learner,
    template: byteTemplate,
    progress: new ProgressFiles(directory),
    signal: new AbortController().signal,
    emit: (event: TrainerEvent) => void events.push(event),
    events,
  };
}

const metricsOf = (events: readonly TrainerEvent[]) =>
  events.flatMap((event) => (event.kind === 'gradient_step' ? [event.metrics] : []));

it('a learner that takes all rows at once gets a step in one pass, which has the gradient of one row after the other', async () => {
  class RowByRow extends ScriptedLearner {
    override readonly capabilities = { ...new ScriptedLearner().capabilities, maxKeptRows: 1 } as never;
  }
  const atOnce = parts(new ScriptedLearner());
  const rowByRow = parts(new RowByRow());
  const config = { klPenaltyCoef: 0.3 };
  const { digest } = await runTrainingJob(job(config), atOnce);
  await runTrainingJob(job(config, { snapshots: 'other' }), rowByRow);
  const [first, second] = [metricsOf(atOnce.events), metricsOf(rowByRow.events)];
  expect(first).toHaveLength(2);
  for (const [index, metrics] of first.entries()) {
    expect(metrics['num_rows']).toBeGreaterThan(1);
    for (const key of ['grad_norm', 'policy_loss', 'kl_policy_ref', 'ratio_mean'])
      expect(second[index]![key]).toBeCloseTo(metrics[key]!, 5);
    expect(metrics).not.toHaveProperty('entropy');
    expect(metrics).not.toHaveProperty('surprisal_excess');
  }
  expect(first[0]!['kl_policy_ref']).toBe(0);
  expect(await atOnce.learner.find('service://trained')).toEqual({ name: 'service://trained', digest });
  expect(atOnce.learner.calls.filter((name) => name === 'backward')).toHaveLength(2);
  expect(rowByRow.learner.calls.filter((name) => name === 'backward').length).toBeGreaterThan(4);
});

it('a supervised job runs on it, too', async () => {
  const turn = (question: string) => ({
    messages: [
      { role: 'user', content: question },
      { role: 'assistant', content: `${question}!` },
    ],
    tools: null,
  });
  const running = parts(new ScriptedLearner());
  const { groups: _groups, seed: _seed, ...base } = job();
  const config = resolveSftConfig({ learningRate: 0.05, epochs: 4, batchSize: 2 }, { maxSequenceLength: 1000 });
  await runSftJob({ ...base, examples: ['one', 'two', 'three', 'four'].map(turn), config }, running);
  const losses = metricsOf(running.events).map(({ loss }) => loss!);
  expect(losses).toHaveLength(8);
  expect(losses.at(-1)).toBeLessThan(losses[0]!);
});

it('a supervised job is refused before its first step by a learner without its loss', async () => {
  class PolicyOnly extends ScriptedLearner {
    override readonly capabilities = { ...new ScriptedLearner().capabilities, losses: ['cispo', 'ppo'] } as never;
  }
  const running = parts(new PolicyOnly());
  const { groups: _groups, seed: _seed, ...base } = job();
  const config = resolveSftConfig({}, { maxSequenceLength: 1000 });
  await expect(runSftJob({ ...base, examples: [], config }, running)).rejects.toMatchObject({
    code: 'trainer.config_invalid',
    message: '`loss_fn` must be one of cispo, ppo on this learner, got cross_entropy',
  });
  expect([running.events, running.learner.calls]).toEqual([[], []]);
});

it.each<[string, TrainingConfigInput, Partial<TrainingJob>]>([
  ['`entropy_coef`', { entropyCoef: 0.1 }, {}],
  [
    '`kl_penalty_reference_step`',
    { klPenaltyReferenceStep: 2, klPenaltyCoef: 0.1 },
    { referenceFrom: 'service://two' },
  ],
])('an unsupported setting is refused before any computation: %s', async (field, config, overrides) => {
  const running = parts(new ScriptedLearner());
  await expect(runTrainingJob(job(config, overrides), running)).rejects.toMatchObject({
    code: 'trainer.config_invalid',
    message: expect.stringContaining(field) as string,
  });
  expect(running.learner.calls).toEqual([]);
});

it('a learner lost in any call is replaced by another session, from the last snapshot', async () => {
  const whole = new ScriptedLearner();
  const expected = await runTrainingJob(
    job({ stepPerRow: true, gradientSteps: null }, { snapshots: 'whole' }),
    parts(whole),
  );
  class Mortal extends ScriptedLearner {
    numCallsLeft = Infinity;
    override async backward(...args: Parameters<ScriptedLearner['backward']>) {
      if (this.numCallsLeft-- <= 0) throw new TrainerError('trainer.host_lost', 'the service restarted');
      await super.backward(...args);
    }
  }
  const numSteps = expected.numGradientSteps;
  expect(numSteps).toBeGreaterThan(3);
  for (let numTaken = 0; numTaken < numSteps; numTaken++) {
    const versions = new Map();
    const own = job({ stepPerRow: true, gradientSteps: null }, { snapshots: `lost-${numTaken}` });
    const mortal = new Mortal(versions);
    mortal.numCallsLeft = numTaken;
    const lost = runTrainingJob(own, parts(mortal));
    await expect(lost).rejects.toMatchObject({ code: 'trainer.host_lost', retry: 'resume' });
    const next = parts(new ScriptedLearner(versions));
    expect((await runTrainingJob(own, next)).digest).toBe(expected.digest);
    expect(next.learner.calls.filter((name) => name === 'step')).toHaveLength(numSteps - numTaken);
    expect(metricsOf(next.events)).toHaveLength(numSteps);
  }
});
