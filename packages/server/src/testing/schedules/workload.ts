import { lessonJob, NUM_DATASETS, rolloutGroups, rolloutJob } from './datasets.ts';
import { type Answer, type ScheduleClient, Violation } from './client.ts';
import type { VirtualTime } from './virtual-time.ts';
import { BASE_MODEL } from './service-process.ts';

/** An answered command of a client. */
export interface SubmittedJob {
  readonly id: string;
  readonly kind: 'rl' | 'sft';
  readonly dataset: number;
  /** A client received the confirmation of its cancellation. */
  isCancelled: boolean;
}

export interface SubmittedModel {
  readonly id: string;
  readonly jobs: SubmittedJob[];
  readonly exportIds: string[];
  numLogs: number;
  readonly deletedSteps: Set<number>;
  isDeleted: boolean;
}

export interface SubmittedAdapter {
  readonly id: string;
  readonly weights: string;
  isDeleted: boolean;
}

/** Answers that clients received, which must hold at the end. */
export class Submitted {
  readonly models: SubmittedModel[] = [];
  readonly adapters: SubmittedAdapter[] = [];
}

export const LORA = { rank: 2, alpha: 4, targets: ['q_proj'], init_seed: 3 };
const PREVIEW = '/v1/preview';
const POLL_MS = 3_000;
/** Jobs take seconds, and recovery from a worker's death half a minute. */
const ENDLESS_MS = 60 * 60_000;

interface Parts {
  readonly client: ScheduleClient;
  readonly time: VirtualTime;
  readonly submitted: Submitted;
}

/**
 * A client that trains a model, exports it, logs trajectories, cancels or deletes some of it, and perhaps
 * deletes the model at the end.
 */
export async function trainModel({ client, time, submitted }: Parts, name: string): Promise<void> {
  const { random } = client;
  const made = await client.send('POST', `${PREVIEW}/models`, {
    project: 'proof',
    name,
    base_model: BASE_MODEL.id,
    return_existing: true,
    lora: LORA,
  });
  const model: SubmittedModel = {
    id: accepted(made).id,
    jobs: [],
    exportIds: [],
    numLogs: 0,
    deletedSteps: new Set(),
    isDeleted: false,
  };
  submitted.models.push(model);
  const numCommands = 4 + Math.floor(4 * random());
  for (let index = 0; index < numCommands; index++) {
    await time.sleep(4_000 * random());
    await doSomething(client, time, model, random());
  }
  if (random() < 0.25) {
    await time.sleep(20_000 * random());
    accepted(await client.send('DELETE', `${PREVIEW}/models/${model.id}`));
    model.isDeleted = true;
    return;
  }
  for (const { id } of model.jobs) await untilEnded(client, time, `${PREVIEW}/training-jobs/${id}`);
  for (const id of model.exportIds) await untilEnded(client, time, `${PREVIEW}/models/${model.id}/exports/${id}`);
}

async function doSomething(
  client: ScheduleClient,
  time: VirtualTime,
  model: SubmittedModel,
  chance: number,
): Promise<void> {
  const { random } = client;
  const job = model.jobs[Math.floor(random() * model.jobs.length)];
  const dataset = Math.floor(NUM_DATASETS * random());
  const at = `${PREVIEW}/models/${model.id}`;
  if (job === undefined || chance < 0.35) {
    const answer = await client.send('POST', `${PREVIEW}/training-jobs`, rolloutJob(model.id, dataset));
    model.jobs.push({ id: accepted(answer).id, kind: 'rl', dataset, isCancelled: false });
  } else if (chance < 0.5) {
    const answer = await client.send('POST', `${PREVIEW}/sft-training-jobs`, lessonJob(model.id, dataset));
    model.jobs.push({ id: accepted(answer).id, kind: 'sft', dataset, isCancelled: false });
  } else if (chance < 0.62) {
    const answer = await client.send('POST', `${at}/exports`, { format: 'peft' });
    model.exportIds.push(accepted(answer).id);
  } else if (chance < 0.72) {
    accepted(await client.send('POST', `${at}/log`, { split: 'val', trajectory_groups: rolloutGroups(dataset) }));
    model.numLogs += 1;
  } else if (chance < 0.82) {
    const answer = await client.send('POST', `${PREVIEW}/training-jobs/${job.id}/cancel`);
    if (answer.status === 200) job.isCancelled = true;
    else refusedAsEnded(answer);
  } else if (chance < 0.94) {
    const paused = await client.send('POST', `${PREVIEW}/training-jobs/${job.id}/pause`);
    if (paused.status !== 200) return refusedAsEnded(paused);
    await time.sleep(10_000 * random());
    accepted(await client.send('POST', `${PREVIEW}/training-jobs/${job.id}/resume`));
  } else {
    await deleteOldStep(client, model, at);
  }
}

/** Keeps the newest, from which the next job continues. */
async function deleteOldStep(client: ScheduleClient, model: SubmittedModel, at: string): Promise<void> {
  const { body } = await client.get<{ data: { step: number }[] }>(`${at}/checkpoints?limit=100`);
  const steps = body.data.map(({ step }) => step).toSorted((first, second) => first - second);
  const [oldest] = steps;
  if (oldest === undefined || steps.length < 3) return;
  const answer = await client.send('DELETE', `${at}/checkpoints`, { steps: [oldest] });
  if (accepted<{ deleted_count: number }>(answer).deleted_count !== 1)
    throw new Violation(`step ${oldest} was listed, and is not there: ${answer.body}`);
  model.deletedSteps.add(oldest);
}

export async function importAdapter({ client, time, submitted }: Parts, name: string): Promise<void> {
  const begun = await client.send('POST', `${PREVIEW}/adapters`, { base_model: BASE_MODEL.id });
  const adapter = { id: accepted(begun).id, weights: `weights of ${name}`, isDeleted: false };
  const at = `${PREVIEW}/adapters/${adapter.id}`;
  submitted.adapters.push(adapter);
  accepted(await client.send('PUT', `${at}/files/adapter_config.json`, '{}'));
  accepted(await client.send('PUT', `${at}/files/adapter_model.safetensors`, adapter.weights));
  await time.sleep(3_000 * client.random());
  accepted(await client.send('POST', `${at}/commit`));
  if (client.random() > 0.2) return;
  accepted(await client.send('DELETE', at));
  adapter.isDeleted = true;
}

async function untilEnded(client: ScheduleClient, time: VirtualTime, url: string): Promise<void> {
  const since = time.now;
  for (;;) {
    const { body } = await client.get<{ status: string }>(url);
    if (['succeeded', 'failed', 'cancelled'].includes(body.status)) return;
    if (time.now > since + ENDLESS_MS) throw new Violation(`${url} does not end: it is ${body.status}`);
    await time.sleep(POLL_MS);
  }
}

function accepted<Body = { id: string }>({ status, body }: Answer): Body {
  if (status !== 200) throw new Violation(`refused with ${status}: ${body}`);
  return JSON.parse(body) as Body;
}

function refusedAsEnded({ status, body }: Answer): void {
  if (status !== 409) throw new Violation(`refused with ${status}: ${body}`);
}
