import type { ChoiceRecordLimits } from '../contract/choice-record.ts';
import type { ConversationLimits } from '../contract/conversation.ts';
import type { KeptAnswerLimits } from '../contract/kept-answer.ts';
import type { Adapter, ClaimedJob, ExportJob, Model, Scope, TrainingJob } from '../contract/records.ts';
import type { Store } from '../contract/store.ts';

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
  const { id: entityId } = await store.ensureEntity(entity);
  const result = await store.createModel({ entityId, project, name, baseModel: 'base', lora: LORA });
  if (result.kind !== 'created') throw new Error(`model ${name} exists already`);
  return result.model;
}

let numJobs = 0;
export async function addJob(store: Store, modelId: string, kind: 'rl' | 'sft' = 'rl'): Promise<TrainingJob> {
  const job = await store.enqueueJob({
    modelId,
    kind,
    config: { learningRate: 1e-5 },
    dataKey: `groups/${numJobs++}`,
  });
  if (job === null) throw new Error(`model ${modelId} is unknown`);
  return job;
}

export async function claim(store: Store, workerId = store.instanceId, leaseMs = 60_000): Promise<ClaimedJob> {
  const job = await store.claimNextJob(workerId, leaseMs);
  if (job === null) throw new Error('no job to claim');
  return job;
}

export async function claimExport(store: Store, leaseMs = 60_000): Promise<ClaimedJob<ExportJob>> {
  const job = await store.claimNextJob(store.instanceId, leaseMs, ['export']);
  if (job === null) throw new Error('no export to claim');
  return job;
}

/** Imports an upload whose files were recognised as this adapter. */
export async function importAdapter(
  store: Store,
  adapterId: string,
  content: NonNullable<Adapter['content']>,
): Promise<{ adapter: Adapter; blobKeys: string[] } | null> {
  if ((await store.enqueueImport(adapterId)) === null) return null;
  const job = await store.claimNextJob(store.instanceId, 60_000, ['import']);
  if (job?.turn !== adapterId) throw new Error('another import was first in the queue');
  return await store.finishImport(job.id, job.fencingToken, content);
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
  await store.finishJobSucceeded(job.id, job.fencingToken, {
    directoryKey,
    digest: directoryKey === null ? null : `digest of ${directoryKey}`,
    metrics,
  });
}

export async function eventTypes(store: Store, jobId: string): Promise<string[]> {
  const page = await store.listEvents({ jobId, limit: 1000 });
  if (page === null) throw new Error(`job ${jobId} is unknown`);
  return page.items.map((event) => event.type);
}
