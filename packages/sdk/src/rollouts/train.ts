import {
  type CheckpointObject,
  type TrainingEventObject,
  TrainingFailedError,
  type TrainingJobObject,
  type WireTrainingConfig,
  type WireTrajectoryGroup,
} from '../index.ts';
import { withJob } from '../http/errors.ts';
import { type OutageOptions, PATIENT_OUTAGE_MS, warnOfOutage } from '../http/outage.ts';
import { gather, type GatherOptions, type GroupPlan, meanReward } from './gather.ts';
import type { PolicyModel } from './policy-model.ts';

export interface Trained {
  readonly job: TrainingJobObject;
  /** Resulting step of the model. */
  readonly step: number;
  /** Numbers of each gradient step; empty if no group had a training signal. */
  readonly gradientSteps: readonly Record<string, number>[];
}

export interface TrainOptions extends OutageOptions {
  /** Ends the wait; the job continues. */
  readonly signal?: AbortSignal | undefined;
  readonly onEvent?: (event: TrainingEventObject) => void;
  /** Receives each warning of the job. Default: a line on the console, as for `nothing_trained`. */
  readonly onWarning?: (warning: JobWarning) => void;
}

export type JobWarning = TrainingJobObject['warnings'][number];

/**
 * Trains a model on groups and waits for the job. Warnings are in `job.warnings`, the outcome of each group
 * in `job.group_outcomes`. Waits at most `maxOutageMs` (default 600,000) for a service that restarts
 * meanwhile, with a notice on the console unless `onOutage` is given.
 *
 * @throws {TrainingFailedError} if the job failed or was cancelled; {TrainyardConnectionError} with `jobId`
 *   if the service stays unreachable; if `signal` is aborted, the job continues
 */
export async function train(
  model: PolicyModel,
  groups: readonly WireTrajectoryGroup[],
  config: WireTrainingConfig = {},
  options: TrainOptions = {},
): Promise<Trained> {
  const {
    signal,
    onEvent,
    onWarning = printWarning,
    maxOutageMs = PATIENT_OUTAGE_MS,
    onOutage = warnOfOutage,
  } = options;
  const patience = { signal, maxOutageMs, onOutage };
  const { trainingJobs } = model.client;
  const { id } = await trainingJobs.create(
    { model_id: model.id, trajectory_groups: groups, experimental_config: config },
    patience,
  );
  const gradientSteps: Record<string, number>[] = [];
  let step: number | null = null;
  for await (const event of trainingJobs.watch(id, patience)) {
    onEvent?.(event);
    if (event.type === 'warning') onWarning(event.data as unknown as JobWarning);
    if (event.type === 'gradient_step') gradientSteps.push(event.data as Record<string, number>);
    if (event.type === 'training_ended' && typeof event.data['step'] === 'number') step = event.data['step'];
  }
  const job = await trainingJobs.retrieve(id, patience).catch((error: unknown) => {
    throw withJob(error, id);
  });
  if (job.status !== 'succeeded') throw new TrainingFailedError(id, job.error_message ?? `the job is ${job.status}`);
  // Older services do not report it.
  return { job, step: step ?? (job.start_step ?? 0) + 1, gradientSteps };
}

function printWarning({ code, message, suggestion }: JobWarning): void {
  console.warn(`trainyard: ${code}: ${message}; ${suggestion}`);
}

export interface Evaluation {
  /** Mean over all trajectories. */
  readonly reward: number;
  readonly step: number;
  readonly groups: readonly WireTrajectoryGroup[];
}

/**
 * Plays rollouts without training on them, and keeps them under the name of their split: the latest
 * checkpoint gets `<split>/reward` and the other means.
 */
export async function evaluate(
  model: PolicyModel,
  split: string,
  plans: Iterable<GroupPlan>,
  options: GatherOptions = {},
): Promise<Evaluation> {
  const { signal } = options;
  const step = (await latest(model, signal)).step;
  const groups = await gather(plans, options);
  await model.client.trajectoryLogs.create(model.id, { split, trajectory_groups: groups }, { signal });
  return { reward: meanReward(groups), step, groups };
}

async function latest(model: PolicyModel, signal: AbortSignal | undefined): Promise<CheckpointObject> {
  const { data } = await model.client.checkpoints.list(model.id, { limit: 1, order: 'desc' }, { signal });
  if (data[0] === undefined) throw new Error(`the model ${model.name} has no checkpoint: all of them were deleted`);
  return data[0];
}
