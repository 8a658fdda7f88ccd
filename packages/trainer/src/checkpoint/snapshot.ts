/**
 * What a job leaves behind after each gradient step, so that it goes on there when its process dies: `step-<k>/` after k steps, with
 * weights, optimizer and the metrics of the steps so far. Older ones are removed.
 */
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { readAdapter, readOptimizer, writeAdapter, writeOptimizer } from './checkpoint.ts';
import { replaceDirectory, writeDurableText } from './durable-directory.ts';
import { TrainerError } from '../contract/errors.ts';
import type { LoraParameters } from '../model/policy-model.ts';
import type { Objective, OptimizerState } from '../optimizer/adamw.ts';

const PROGRESS_FILE = 'metrics.json';
const NAME = /^step-(\d+)$/;

/** How far a job got. */
export interface Progress {
  /** Metrics of each finished gradient step, in order, as they were reported. */
  readonly stepMetrics: readonly Readonly<Record<string, number>>[];
  readonly optimizer: OptimizerState;
}

/**
 * @param fingerprint What identifies the job: a snapshot of another one is not gone on from.
 * @throws {TrainerError} `trainer.disk_full`
 */
export function writeSnapshot(
  workDirectory: string,
  fingerprint: string,
  lora: LoraParameters,
  progress: Progress,
): void {
  const numSteps = progress.stepMetrics.length;
  replaceDirectory(join(workDirectory, `step-${numSteps}`), (temporary) => {
    const digest = writeAdapter(temporary, lora);
    writeOptimizer(temporary, lora, progress.optimizer);
    writeDurableText(
      join(temporary, PROGRESS_FILE),
      JSON.stringify({ fingerprint, digest, stepMetrics: progress.stepMetrics }),
    );
  });
  for (const older of snapshots(workDirectory)) if (older !== numSteps) removeSnapshot(workDirectory, older);
}

/**
 * Puts the newest usable snapshot's weights into `lora`.
 *
 * @returns null when there is none; a damaged one or one of another job is as good as none: the job starts over
 */
export function resumeSnapshot(
  workDirectory: string,
  fingerprint: string,
  lora: LoraParameters,
  objective: Objective,
): Progress | null {
  for (const numSteps of snapshots(workDirectory)) {
    const directory = join(workDirectory, `step-${numSteps}`);
    try {
      const progress: unknown = JSON.parse(readFileSync(join(directory, PROGRESS_FILE), 'utf8'));
      if (!isProgressFile(progress) || progress.fingerprint !== fingerprint || progress.stepMetrics.length !== numSteps)
        continue;
      const optimizer = readOptimizer(directory, lora, objective);
      readAdapter(directory, lora, progress.digest);
      return { stepMetrics: progress.stepMetrics, optimizer };
    } catch (error) {
      const isDamage =
        error instanceof SyntaxError ||
        (error instanceof TrainerError && error.code === 'trainer.checkpoint_unreadable');
      if (!isDamage && !isMissing(error)) throw error;
    }
  }
  return null;
}

/** Steps that have a snapshot, newest first. */
function snapshots(workDirectory: string): number[] {
  let names: string[];
  try {
    names = readdirSync(workDirectory);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
  return names
    .flatMap((name) => NAME.exec(name)?.[1] ?? [])
    .map(Number)
    .toSorted((a, b) => b - a);
}

function removeSnapshot(workDirectory: string, numSteps: number): void {
  rmSync(join(workDirectory, `step-${numSteps}`), { recursive: true, force: true });
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

function isProgressFile(
  value: unknown,
): value is { fingerprint: string; digest: string; stepMetrics: Record<string, number>[] } {
  return (
    typeof value === 'object' &&
    value !== null &&
    'fingerprint' in value &&
    'digest' in value &&
    'stepMetrics' in value &&
    Array.isArray(value.stepMetrics)
  );
}
