import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readCheckpoint } from '../checkpoint/checkpoint.ts';
import { resolveTrainingConfig } from '../config/training-config.ts';
import { BIGRAM_LORA, BigramPolicy } from '../testing/bigram-policy.ts';
import { answer, byteTemplate, group } from '../testing/chat-groups.ts';
import { localParts } from '../testing/local-parts.ts';
import { runTrainingJob } from '../job/run-training-job.ts';
import type { TrainerEvent, TrainingParts } from '../job/training-job.ts';
import { runSftJob, type SftJob } from './run-sft-job.ts';
import { resolveSftConfig, type SftConfigInput } from './sft-config.ts';
import type { SftExample } from './sft-example.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sft-'));
});
afterEach(() => rm(directory, { recursive: true }));

const turn = (question: string, reply: string | null): SftExample => ({
  messages: [{ role: 'user', content: question }, ...(reply === null ? [] : [{ role: 'assistant', content: reply }])],
  tools: null,
});
const EXAMPLES = ['one', 'two', 'three', 'four', 'five'].map((question) => turn(question, `${question}!`));

function job(
  input: SftConfigInput = {},
  {
    name = 'out',
    maxSequenceLength = 1000,
    ...overrides
  }: Partial<SftJob> & { name?: string; maxSequenceLength?: number } = {},
): SftJob {
  return {
    jobId: 'job',
    examples: EXAMPLES,
    config: resolveSftConfig({ learningRate: 0.01, ...input }, { maxSequenceLength }),
    lora: BIGRAM_LORA,
    startFrom: null,
    snapshots: join(directory, `work-${name}`),
    output: join(directory, name),
    ...overrides,
  };
}

function parts({
  model = new BigramPolicy(),
  ...overrides
}: Partial<TrainingParts> & { readonly model?: BigramPolicy } = {}) {
  const events: TrainerEvent[] = [];
  return {
    ...localParts({ policy: model }),
    model,
    template: byteTemplate,
    signal: new AbortController().signal,
    emit: (event: TrainerEvent) => void events.push(event),
    ...overrides,
    events,
  };
}

const steps = (events: TrainerEvent[]) => events.filter((event) => event.kind === 'gradient_step');
const withoutTimes = (events: TrainerEvent[]) =>
  steps(events).map(({ metrics }) => ({ ...metrics, tokens_per_second: 0 }));

describe('runSftJob', () => {
  it('takes one step a batch in the order of the data, with the metrics of the client, and writes the checkpoint', async () => {
    const running = parts();
    const result = await runSftJob(job({ learningRate: [0.01, 0.02, 0.03, 0.04] }), running);
    expect(running.events[0]).toMatchObject({
      kind: 'training_started',
      numGradientSteps: 3,
      data: {
        num_sequences: 3,
        batch_size: 2,
        epochs: 1,
        num_trajectories_submitted: 5,
        num_trajectories_trainable: 5,
        num_trainable_tokens: 'one!.two!.three!.four!.five!.'.length,
        num_ignored_learning_rates: 1,
        dropped_trajectories: {},
      },
    });
    const taken = steps(running.events);
    expect(
      taken.map(({ index, metrics }) => [index, metrics['learning_rate'], metrics['num_trainable_tokens']]),
    ).toEqual([
      [0, 0.01, 'one!.two!.'.length],
      [1, 0.02, 'three!.four!.'.length],
      [2, 0.03, 'five!.'.length],
    ]);
    for (const { metrics } of taken) {
      expect(Object.keys(metrics).toSorted()).toEqual([
        'grad_norm',
        'learning_rate',
        'loss',
        'num_dropped_trajectories',
        'num_tokens',
        'num_trainable_tokens',
        'num_trajectories',
        'tokens_per_second',
      ]);
      expect(Object.values(metrics).every(Number.isFinite)).toBe(true);
      expect(metrics['grad_norm']).toBeGreaterThan(0);
    }
    expect(result.digest).toBe(readFileSync(join(directory, 'out', 'digest'), 'utf8').trim());
    expect(result.numGradientSteps).toBe(3);
  });

  it('lowers the loss from epoch to epoch', async () => {
    const running = parts();
    await runSftJob(job({ epochs: 8, batchSize: 5, learningRate: 0.05 }), running);
    const losses = steps(running.events).map(({ metrics }) => metrics['loss']!);
    console.log(`losses ${losses.map((loss) => loss.toFixed(3)).join(' ')}`);
    expect(losses).toHaveLength(8);
    losses.slice(1).forEach((loss, i) => expect(loss).toBeLessThan(losses[i]!));
  });

  it('gives the same digest again, and continues after being cut off with the same events and the same digest', async () => {
    const whole = parts();
    const settings: SftConfigInput = { epochs: 2, learningRateSchedule: 'cosine', learningRateWarmupSteps: 1 };
    const expected = await runSftJob(job(settings, { name: 'whole' }), whole);
    for (let cut = 0; cut < expected.numGradientSteps; cut++) {
      const name = `cut-${cut}`;
      const controller = new AbortController();
      const events: TrainerEvent[] = [];
      const emit = (event: TrainerEvent): void => {
        events.push(event);
        if (event.kind === 'gradient_step' && event.index === cut) controller.abort();
      };
      const cutOff = runSftJob(job(settings, { name }), parts({ signal: controller.signal, emit }));
      await expect(cutOff).rejects.toMatchObject({ code: 'trainer.cancelled' });
      expect(existsSync(join(directory, name))).toBe(false);
      const resumed = parts();
      const result = await runSftJob(job(settings, { name }), resumed);
      expect(result.digest).toBe(expected.digest);
      // Repeated, not taken again.
      const again = events
        .slice(0, -1)
        .map((event) => (event.kind === 'gradient_step' ? { ...event, taken: undefined } : event));
      expect(resumed.events.slice(0, events.length - 1)).toEqual(again);
      expect(withoutTimes(resumed.events)).toEqual(withoutTimes(whole.events));
    }
  });

  it('does not continue from the snapshot of other batches', async () => {
    const first = job({ batchSize: 1 }, { name: 'a' });
    await runSftJob(first, parts());
    expect(readdirSync(first.snapshots)).toEqual(['progress.json', 'step-4']);
    const moved = [turn('none', null), ...EXAMPLES];
    const other = parts();
    await runSftJob(job({ batchSize: 1 }, { name: 'b', snapshots: first.snapshots, examples: moved }), other);
    expect(other.model).toMatchObject({ numBackwards: 5 });
  });

  it('counts items that are too long or have nothing to train, and keeps the place of their batch', async () => {
    const running = parts();
    const examples = [turn('x'.repeat(100), 'long'), turn('hi', null), ...EXAMPLES.slice(0, 3)];
    await runSftJob(job({}, { examples, maxSequenceLength: 100 }), running);
    expect(running.events[0]).toMatchObject({
      data: {
        num_sequences: 3,
        num_trajectories_submitted: 5,
        num_trajectories_trainable: 3,
        dropped_trajectories: { too_long: 1, no_trainable_tokens: 1 },
      },
    });
    expect(
      steps(running.events).map(({ metrics }) => [metrics['num_trajectories'], metrics['num_dropped_trajectories']]),
    ).toEqual([
      [0, 2],
      [2, 0],
      [1, 0],
    ]);
    expect(steps(running.events)[0]!.metrics).toMatchObject({ loss: 0, grad_norm: 0, num_tokens: 0 });
  });

  it('with nothing to train at all takes its steps, changes nothing and writes nothing', async () => {
    const running = parts();
    const result = await runSftJob(job({}, { examples: [turn('a', null), turn('b', null), turn('c', null)] }), running);
    expect(result).toMatchObject({ numGradientSteps: 2, digest: null, metrics: { loss: 0 } });
    const kinds = running.events.map(({ kind }) => kind).filter((kind) => kind !== 'warning');
    expect(kinds).toEqual(['training_started', 'gradient_step', 'gradient_step']);
    expect(readdirSync(directory)).toEqual([]);
  });

  it('trains only the last turn on request', async () => {
    const messages = ['a', 'b', 'c', 'dd'].map((content, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content }));
    const numTrained = async (assistantTurns: 'all' | 'last') => {
      const running = parts();
      await runSftJob(
        job({ assistantTurns }, { examples: [{ messages, tools: null }], name: assistantTurns }),
        running,
      );
      return steps(running.events)[0]!.metrics['num_trainable_tokens'];
    };
    expect(await numTrained('all')).toBe(5);
    expect(await numTrained('last')).toBe(3);
  });

  it('resets the optimizer after another objective, and keeps its momentum after its own', async () => {
    const rl = join(directory, 'rl');
    await runTrainingJob(
      {
        ...job({}, { name: 'rl' }),
        groups: [group(answer(1, 'yes'), answer(0, 'no'))],
        config: resolveTrainingConfig({ learningRate: 0.01 }),
        seed: 0,
      },
      parts(),
    );
    const { lora } = new BigramPolicy();
    expect(readCheckpoint(rl, lora, 'rl').numSteps).toBe(1);
    expect(readCheckpoint(rl, lora, 'sft').numSteps).toBe(0);
    await runSftJob(job({}, { startFrom: rl, name: 'first' }), parts());
    expect(readCheckpoint(join(directory, 'first'), lora, 'sft').numSteps).toBe(3);
    await runSftJob(job({}, { startFrom: join(directory, 'first'), name: 'second' }), parts());
    expect(readCheckpoint(join(directory, 'second'), lora, 'sft').numSteps).toBe(6);
    expect(readCheckpoint(join(directory, 'second'), lora, 'rl').numSteps).toBe(0);
  });

  it.each<[string, SftConfigInput, Partial<SftJob>, string, string]>([
    [
      'content that is no text',
      {},
      {
        examples: [
          EXAMPLES[0]!,
          {
            messages: [
              { role: 'user', content: [{ type: 'image' }] },
              { role: 'assistant', content: 'x' },
            ],
            tools: null,
          },
        ],
      },
      'trainer.render_failed',
      'conversation 2: ',
    ],
    [
      'a list of rates that is too short',
      { learningRate: [1] },
      {},
      'trainer.config_invalid',
      'each of the 3 batches, got 1',
    ],
    ['a step that overflows', { learningRate: 3e38 }, {}, 'trainer.non_finite', 'the loss is NaN'],
  ])('fails for %s and publishes nothing', async (_name, input, overrides, code, message) => {
    await expect(runSftJob(job(input, overrides), parts())).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message) as string,
    });
    expect(existsSync(join(directory, 'out'))).toBe(false);
  });

  it('is cancelled before it starts', async () => {
    await expect(runSftJob(job(), parts({ signal: AbortSignal.abort() }))).rejects.toMatchObject({
      code: 'trainer.cancelled',
    });
    expect(readdirSync(directory)).toEqual([]);
  });
});
