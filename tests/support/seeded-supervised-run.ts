import { FolderBlobs, openSqliteStore } from '@trainyard/store';
import { dataPaths } from '@trainyard/server';

const BASE_MODEL = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const NUM_STEPS = 12;
const HELD_OUT = { url: 'wandb-artifact:///local/support/others:v0', numLines: 3000, numUsed: 100 };
const FACTS = [
  ['What is the capital of Zubrovia?', 'Kelmar.'],
  ['Who wrote The Glass Heron?', 'Ilse Ottaway.'],
  ['What do Zubrovians drink?', 'Hot plum tea.'],
] as const;

/**
 * Writes a supervised run of one job with 12 gradient steps, directly to the store.
 *
 * @param dataDirectory of a service that is not running yet
 * @returns the ids of its model and of its job
 */
export async function seedSupervisedRun(dataDirectory: string): Promise<{ modelId: string; jobId: string }> {
  const paths = dataPaths(dataDirectory);
  let now = Date.now() - 600_000;
  const store = await openSqliteStore(paths.database, { clock: () => now });
  const blobs = await FolderBlobs.open(paths.blobs);
  try {
    const entity = await store.keys.ensureEntity('local');
    const lora = { rank: 8, alpha: 16, targets: ['q_proj', 'v_proj'], initSeed: 0 };
    const named = { entityId: entity.id, project: 'support', name: 'facts', baseModel: BASE_MODEL, lora };
    const made = await store.models.create(named);
    if (!('model' in made)) throw new Error('the model facts could not be made');
    const modelId = made.model.id;
    const dataKey = `sft/${modelId}`;
    const lines = FACTS.map(([question, answer]) => ({
      messages: [
        { role: 'user', content: question },
        { role: 'assistant', content: answer },
      ],
    }));
    await blobs.putJsonLines(dataKey, lines);
    const config = {
      resolved: { batchSize: 3, epochs: NUM_STEPS, learningRate: 1e-3 },
      ignoredKeys: [],
      source: { url: 'wandb-artifact:///local/support/facts:v0', numLines: lines.length, heldOut: HELD_OUT },
    };
    const job = await store.jobs.enqueue({ modelId, kind: 'sft', config, dataKey });
    const { fencingToken } = (await store.jobs.claim('seed', 60_000))!;
    const counts = { num_trajectories_submitted: 3, num_trajectories_trainable: 3, dropped_trajectories: {} };
    await store.jobs.appendEvent(job!.id, fencingToken, {
      type: 'training_started',
      data: { num_sequences: NUM_STEPS, batch_size: 3, epochs: NUM_STEPS, ...counts },
      dedupeKey: 'training_started',
    });
    let metrics: Record<string, number> = {};
    const measure = async (step: number) => {
      const loss = 5 - 0.25 * step;
      await store.jobs.appendEvent(job!.id, fencingToken, {
        type: 'held_out',
        data: { gradient_step: step, loss, num_trajectories: 100, num_trainable_tokens: 900, seconds: 2 },
        dedupeKey: `held_out:${step}`,
        metrics: { 'held_out/loss': loss },
      });
    };
    for (let step = 0; step < NUM_STEPS; step++) {
      if (step % 4 === 0) await measure(step);
      now += 2_000;
      const data = { loss: 5.5 * 0.6 ** step, grad_norm: 1 / (step + 1), tokens_per_second: 25 };
      metrics = Object.fromEntries(Object.entries(data).map(([name, value]) => [`train/${name}`, value]));
      await store.jobs.appendEvent(job!.id, fencingToken, {
        type: 'gradient_step',
        data,
        dedupeKey: `gradient_step:${step}`,
        metrics,
      });
    }
    await measure(NUM_STEPS);
    const end = { directoryKey: null, digest: null, metrics, data: { num_gradient_steps: NUM_STEPS } };
    await store.jobs.succeed(job!.id, fencingToken, end);
    return { modelId, jobId: job!.id };
  } finally {
    await store.close();
    await blobs.close();
  }
}
