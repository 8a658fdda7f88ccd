import type { JobWarningObject, TrainingJobObject, WaitingForObject } from '@trainyard/protocol';
import type { TrainingJob } from '@trainyard/store';
import { ignoredSettingsWarning, referenceStep, type TrainingConfig } from '@trainyard/trainer';

import type { SftSource } from './sft-config.ts';
import { changedKeys, toWireConfig } from './training-config.ts';

export interface JobProgress {
  /** Data of `training_started`; null before it. */
  started: Readonly<Record<string, unknown>> | null;
  numGradientSteps: number;
  warnings: readonly JobWarningObject[];
  waitingFor: WaitingForObject | null;
}

export function toJobObject(job: TrainingJob, progress: JobProgress): TrainingJobObject {
  const { ignoredKeys, resolved } = job.config;
  const { group_outcomes: groupOutcomes, ...counts } = progress.started ?? {};
  return {
    id: job.id,
    model_id: job.modelId,
    kind: job.kind,
    status: job.status,
    is_paused: job.pausedAt !== null,
    waiting_for: progress.waitingFor,
    created_at: toSeconds(job.createdAt),
    started_at: job.startedAt === null ? null : toSeconds(job.startedAt),
    finished_at: job.finishedAt === null ? null : toSeconds(job.finishedAt),
    data_removed_at: job.dataRemovedAt === null ? null : toSeconds(job.dataRemovedAt),
    start_step: job.start?.step ?? null,
    error_message: job.errorMessage,
    config: { ...toWireConfig(resolved), ...resolvedAtStart(job, progress) },
    changed_config_keys: changedKeys(job.kind, resolved),
    training_data: toTrainingData(job),
    ignored_config_keys: Array.isArray(ignoredKeys) ? ignoredKeys.map(String) : [],
    num_gradient_steps_done: progress.numGradientSteps,
    counts: progress.started === null ? null : counts,
    group_outcomes: Array.isArray(groupOutcomes) ? groupOutcomes.map(String) : null,
    warnings: warningsOf(job, progress.warnings),
  };
}

function toTrainingData({ config: { source } }: TrainingJob): TrainingJobObject['training_data'] {
  if (source === undefined) return null;
  const { url, numLines, heldOut = null } = source as SftSource;
  const held = heldOut && { url: heldOut.url, num_lines: heldOut.numLines, num_used: heldOut.numUsed };
  return { url, num_lines: numLines, held_out: held };
}

/** The first warning concerns the settings, and is known before the job starts. */
function warningsOf({ kind, config }: TrainingJob, warnings: readonly JobWarningObject[]): JobWarningObject[] {
  const { ignoredKeys } = config;
  const first = ignoredSettingsWarning(kind, Array.isArray(ignoredKeys) ? ignoredKeys.map(String) : []);
  return first === null ? [...warnings] : [first, ...warnings.filter(({ code }) => code !== first.code)];
}

const toSeconds = (milliseconds: number): number => Math.floor(milliseconds / 1000);

/** Settings that depend on the job's data, known after its start. */
function resolvedAtStart({ kind, config, start }: TrainingJob, { started }: JobProgress): Record<string, unknown> {
  if (kind !== 'rl' || started === null) return {};
  const { packed_sequence_length: rowTokens, num_sequences: numSteps } = started;
  const reference = start === null ? null : referenceStep(config['resolved'] as TrainingConfig, start.step);
  return {
    ...(rowTokens === undefined ? {} : { packed_sequence_length: rowTokens }),
    ...(numSteps === undefined ? {} : { gradient_steps: numSteps }),
    kl_penalty_reference_step: reference,
  };
}
