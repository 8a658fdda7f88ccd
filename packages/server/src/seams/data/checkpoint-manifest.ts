import { join } from 'node:path';

import type { LoraShape, Model } from '@trainyard/store';
import { replaceFile } from '@trainyard/store/places';

export const MANIFEST_FILE = 'checkpoint.json';

/** Identity of a checkpoint, in a small file of its folder: a lost database can be rebuilt from these files. */
export interface CheckpointManifest {
  readonly format: 1;
  readonly entity: string;
  readonly project: string;
  readonly name: string;
  readonly model_id: string;
  readonly base_model: string;
  readonly lora: LoraShape;
  /** Initial weights of the model; null: the base model. */
  readonly warm_start: { readonly source: string; readonly directory_key: string | null } | null;
  readonly step: number;
  readonly job_id: string;
  /** Milliseconds since the epoch. */
  readonly created_at: number;
}

/** The step is known before the end, because jobs of one model run one after the other. */
export function manifestOf(model: Model, job: { readonly id: string }, now: number): CheckpointManifest {
  const { entity, project, name, id, baseModel, lora, warmStart, nextStep } = model;
  return {
    format: 1,
    entity,
    project,
    name,
    model_id: id,
    base_model: baseModel,
    lora,
    warm_start: warmStart === null ? null : { source: warmStart.source, directory_key: warmStart.directoryKey },
    step: nextStep,
    job_id: job.id,
    created_at: now,
  };
}

export function writeManifest(directory: string, manifest: CheckpointManifest): void {
  replaceFile(join(directory, MANIFEST_FILE), `${JSON.stringify(manifest, null, 2)}\n`);
}

/** Null if the file is damaged or its format unknown. */
export function readManifest(bytes: Uint8Array): CheckpointManifest | null {
  let value: Partial<Record<keyof CheckpointManifest, unknown>> | null;
  try {
    value = JSON.parse(Buffer.from(bytes).toString('utf8')) as typeof value;
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null || value.format !== 1) return null;
  const texts = [value.entity, value.project, value.name, value.model_id, value.base_model];
  const isWhole =
    texts.every((text) => typeof text === 'string' && text !== '') &&
    isStep(value.step) &&
    typeof value.created_at === 'number';
  return isWhole && isLora(value.lora) ? (value as CheckpointManifest) : null;
}

const isStep = (step: unknown): boolean => Number.isSafeInteger(step) && Number(step) >= 1;

function isLora(value: unknown): value is LoraShape {
  if (typeof value !== 'object' || value === null) return false;
  const shape = value as Partial<Record<keyof LoraShape, unknown>>;
  const { rank, alpha, targets, initSeed, isRankStabilised = false, rankPattern = {}, alphaPattern = {} } = shape;
  const areNumbers = [rank, alpha, initSeed].every((number) => typeof number === 'number');
  const areTargets = Array.isArray(targets) && targets.every((target) => typeof target === 'string');
  return (
    areNumbers && areTargets && typeof isRankStabilised === 'boolean' && [rankPattern, alphaPattern].every(isPattern)
  );
}

const isPattern = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.values(value).every((one) => typeof one === 'number');
