import type { ChoiceRecordLimits } from '../parts/choice-records/choice-records.ts';
import type { ConversationLimits } from '../parts/kept-answers/conversations.ts';
import type { KeptAnswerLimits } from '../parts/kept-answers/kept-answers.ts';
import type { Adapter } from '../parts/transfers/adapters.ts';
import type { ClaimedJob, ExportJob, TrainingJob } from '../parts/jobs/jobs.ts';
import type { Model } from '../parts/models/models.ts';
import type { Scope } from '../parts/keys/keys.ts';
import type { TrajectoryContents } from '../parts/trajectories/trajectories.ts';
import type { Store } from '../parts/store.ts';

/** An empty database to test against; `open` returns another handle on the same data each time. */
export interface StoreHarness {
  open(options?: {
    clock?: () => number;
    choiceRecords?: Partial<ChoiceRecordLimits>;
    keptAnswers?: Partial<KeptAnswerLimits>;
    conversations?: Partial<ConversationLimits>;
    instanceId?: string;
  }): Promise<Store>;
  /** Closes every handle and removes the data. */
  destroy(): Promise<void>;
}

export type MakeHarness = () => Promise<StoreHarness>;

/** A manual clock. Starts at 2026-01-01T00:00:00Z. */
export class ManualClock {
  nowMs = Date.UTC(2026, 0, 1);
  readonly read = (): number => this.nowMs;
  advance(ms: number): void {
    this.nowMs += ms;
  }
}

export const LORA = { rank: 8, alpha: 16, targets: ['q', 'v'], initSeed: 1 };
export const ALL_SCOPES: Scope[] = ['inference', 'training', 'admin'];

export async function addModel(store: Store, name = 'agent', project = 'demo', entity = 'local'): Promise<Model> {
  const { id: entityId } = await store.keys.ensureEntity(entity);
  const result = await store.models.create({ entityId, project, name, baseModel: 'base', lora: LORA });
  if (result.kind !== 'created') throw new Error(`model ${name} exists already`);
  return result.model;
}

let numJobs = 0;
export async function addJob(store: Store, modelId: string, kind: 'rl' | 'sft' = 'rl'): Promise<TrainingJob> {
  const job = await store.jobs.enqueue({
    modelId,
    kind,
    config: { learningRate: 1e-5 },
    dataKey: `groups/${numJobs++}`,
  });
  if (job === null) throw new Error(`model ${modelId} is unknown`);
  return job;
}

export async function claim(store: Store, workerId = store.instanceId, leaseMs = 60_000): Promise<ClaimedJob> {
  const job = await store.jobs.claim(workerId, leaseMs);
  if (job === null) throw new Error('no job to claim');
  return job;
}

export async function claimExport(store: Store, leaseMs = 60_000): Promise<ClaimedJob<ExportJob>> {
  const job = await store.jobs.claim(store.instanceId, leaseMs, ['export']);
  if (job === null) throw new Error('no export to claim');
  return job;
}

/** Imports an upload whose files were recognised as this adapter. */
export async function importAdapter(
  store: Store,
  adapterId: string,
  content: NonNullable<Adapter['content']>,
): Promise<{ adapter: Adapter; blobKeys: string[] } | null> {
  if ((await store.adapters.enqueueImport(adapterId)) === null) return null;
  const job = await store.jobs.claim(store.instanceId, 60_000, ['import']);
  if (job?.turn !== adapterId) throw new Error('another import was first in the queue');
  return await store.adapters.finishImport(job.id, job.fencingToken, content);
}

/** Runs one whole job of the model. `directoryKey` null = nothing was trained. */
export async function train(
  store: Store,
  modelId: string,
  directoryKey: string | null,
  { metrics = {}, kind = 'rl' }: { metrics?: Record<string, number>; kind?: 'rl' | 'sft' } = {},
): Promise<void> {
  await addJob(store, modelId, kind);
  const job = await claim(store);
  if (job.modelId !== modelId) throw new Error('another model was first in the queue');
  await store.jobs.succeed(job.id, job.fencingToken, {
    directoryKey,
    digest: directoryKey === null ? null : `digest of ${directoryKey}`,
    metrics,
  });
}

/** Contents of a trajectory with that prompt. */
export function contentsOf(
  promptDigest: string | null,
  contents: Partial<TrajectoryContents> = {},
): TrajectoryContents {
  return {
    promptDigest,
    question: 'ä 🚂?',
    reply: '42',
    numTurns: 2,
    numTokens: 9,
    finishReason: 'stop',
    metrics: { length: 0.5 },
    ...contents,
  };
}

export async function eventTypes(store: Store, jobId: string): Promise<string[]> {
  const page = await store.jobs.listEvents({ jobId, limit: 1000 });
  if (page === null) throw new Error(`job ${jobId} is unknown`);
  return page.items.map((event) => event.type);
}
