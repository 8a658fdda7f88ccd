import type { Migration } from './migration.ts';
import { INITIAL } from './0001-0018/0001-initial.ts';
import { JOB_CONTROL } from './0001-0018/0002-job-control.ts';
import { ARTIFACTS } from './0001-0018/0003-artifacts.ts';
import { EXPORTS } from './0001-0018/0004-exports.ts';
import { CHOICE_RECORDS } from './0001-0018/0005-choice-records.ts';
import { KEY_CONTROL } from './0001-0018/0006-key-control.ts';
import { CHOICE_SAMPLING } from './0001-0018/0007-choice-sampling.ts';
import { RETENTION } from './0001-0018/0008-retention.ts';
import { SHARING } from './0001-0018/0009-sharing.ts';
import { OWNERS } from './0001-0018/0010-owners.ts';
import { DATA_KEY } from './0001-0018/0011-data-key.ts';
import { ONE_QUEUE } from './0001-0018/0012-one-queue.ts';
import { RUNS } from './0001-0018/0013-runs.ts';
import { TRAJECTORIES } from './0001-0018/0014-trajectories.ts';
import { TRACKERS } from './0001-0018/0015-trackers.ts';
import { PROMPTS } from './0001-0018/0016-prompts.ts';
import { SIGN_INS } from './0001-0018/0017-sign-ins.ts';
import { SEVERAL_SERVICES } from './0001-0018/0018-several-services.ts';
import { MEMBERS } from './0019-members.ts';
import { JOB_ORIGIN } from './0020-job-origin.ts';
import { MOVING_JOBS } from './0021-moving-jobs.ts';
import { USAGE_NAMES } from './0022-usage-names.ts';
import { KEY_LIMITS } from './0023-key-limits.ts';
import { INDEXED_REFERENCES } from './0024-indexed-references.ts';
import { SHORT_SERIES_NAMES } from './0025-short-series-names.ts';
import { ROLLOUT_STEPS } from './0026-rollout-steps.ts';
import { KNOWN_BLOBS } from './0027-known-blobs.ts';
import { CHOICES_BY_TOKENS } from './0028-choices-by-tokens.ts';
import { KEPT_CHECKPOINTS } from './0029-kept-checkpoints.ts';
import { KEPT_ANSWERS } from './0030-kept-answers.ts';
import { CONVERSATIONS } from './0031-conversations.ts';

export const MIGRATIONS: readonly Migration[] = [
  INITIAL,
  JOB_CONTROL,
  ARTIFACTS,
  EXPORTS,
  CHOICE_RECORDS,
  KEY_CONTROL,
  CHOICE_SAMPLING,
  RETENTION,
  SHARING,
  OWNERS,
  DATA_KEY,
  ONE_QUEUE,
  RUNS,
  TRAJECTORIES,
  TRACKERS,
  PROMPTS,
  SIGN_INS,
  SEVERAL_SERVICES,
  MEMBERS,
  JOB_ORIGIN,
  MOVING_JOBS,
  USAGE_NAMES,
  KEY_LIMITS,
  INDEXED_REFERENCES,
  SHORT_SERIES_NAMES,
  ROLLOUT_STEPS,
  KNOWN_BLOBS,
  CHOICES_BY_TOKENS,
  KEPT_CHECKPOINTS,
  KEPT_ANSWERS,
  CONVERSATIONS,
];

/** Version of the schema that this release writes. Versions ascend; some numbers may be missing. */
export const NEWEST_VERSION: number = MIGRATIONS.at(-1)?.version ?? 0;
