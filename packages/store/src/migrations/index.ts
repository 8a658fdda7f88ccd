import type { Migration } from './migration.ts';
import { SCHEMA } from './0031-schema.ts';
import { KEY_LAST_USED } from './0032-key-last-used.ts';
import { PULL_JOBS } from './0033-pull-jobs.ts';
import { TRAJECTORY_CONTENTS } from './0035-trajectory-contents.ts';
import { POINTS_OF_JOBS } from './0036-points-of-jobs.ts';
import { MODEL_LABELS } from './0037-model-labels.ts';
import { BEFORE_FIRST_RELEASE } from './before-first-release/index.ts';

/** The schema of the first release, and the changes since. */
export const MIGRATIONS: readonly Migration[] = [
  SCHEMA,
  KEY_LAST_USED,
  PULL_JOBS,
  TRAJECTORY_CONTENTS,
  POINTS_OF_JOBS,
  MODEL_LABELS,
];

/** Version of the schema that this release writes. Versions ascend; some numbers may be missing. */
export const NEWEST_VERSION: number = MIGRATIONS.at(-1)?.version ?? 0;

/**
 * Every migration that may apply to a database of that version, 0 for an empty one. A database from before
 * the first release reaches its schema by the steps of that time.
 */
export function migrationsFor(version: number): readonly Migration[] {
  const hasEarlierSchema = version > 0 && version < SCHEMA.version;
  return hasEarlierSchema ? [...BEFORE_FIRST_RELEASE, ...MIGRATIONS.slice(1)] : MIGRATIONS;
}
