import { setImmediate as nextTurn } from 'node:timers/promises';

import {
  type CreateTrainingJobRequest,
  CreateTrainingJobRequestSchema,
  type LogTrajectoriesRequest,
  LogTrajectoriesRequestSchema,
  type SentTrajectoryGroup,
  type WireTrajectoryGroup,
} from '@trainyard/protocol';
import type { Blobs, GroupContents, GroupRewards } from '@trainyard/store';

import { toRecordLines } from '../../training-data/choice-records/record-lines.ts';
import {
  findWantedRecords,
  type FindRecords,
  type WantedRecords,
} from '../../training-data/choice-records/wanted-records.ts';
import { parseJsonBody, utf8Text } from '../bodies/json-body.ts';
import { isDeeperThan, MAX_JSON_DEPTH } from '../../seams/json/json-depth.ts';
import { keepSourceTexts } from '../../seams/json/source-texts.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import { compileLargeBodyCheck } from '../../seams/faults/validation.ts';
import { computeLogMetrics, computeReplyMetrics, computeRolloutMetrics } from '../../training-data/wire/log-metrics.ts';
import { trajectoryContents } from '../../training-data/wire/trajectory-contents.ts';
import { completeGroup, placeInBody, type PolicyNames } from '../forms/exchanges/captured-exchanges.ts';
import { groupLine } from '../../training-data/stored/stored-line.ts';
import { writeArgumentsOf } from '../../seams/chat/written-arguments.ts';
import { TrajectoryFormatError } from '../../training-data/wire/trajectory-format-error.ts';
import { type GroupOptions, trajectoryGroupOf } from '../../training-data/wire/trajectory-groups.ts';

export const TRAJECTORY_BODIES = {
  job: CreateTrainingJobRequestSchema,
  log: LogTrajectoriesRequestSchema,
} as const;
export type TrajectoryBodyKind = keyof typeof TRAJECTORY_BODIES;

interface BodyFields {
  job: Omit<CreateTrainingJobRequest, 'trajectory_groups'>;
  log: Omit<LogTrajectoriesRequest, 'trajectory_groups'>;
}

/**
 * Limit of one body: each trajectory is a row, and all are written in one transaction, for which every other
 * writer waits.
 */
const MAX_TRAJECTORIES = 100_000;
const MAX_METRICS = 10_000;
/** Every answer about a job has the outcome of each group, even empty ones. */
const MAX_GROUPS = 100_000;

/** Summary, for the route, of a body that passed its schema; the groups stay in the parser's thread. */
export interface BodySummary<Kind extends TrajectoryBodyKind = TrajectoryBodyKind> {
  /** All fields except the groups. */
  fields: BodyFields[Kind];
  numGroups: number;
  numTrajectories: number;
  numExceptions: number;
}

export interface StoreGroupsOptions {
  /** Blob for the groups. */
  key: string;
  /** Model of the rollouts: calls of other models are dropped. */
  policy: PolicyNames;
  /** Also checks that every group can be trained, with ids below this; null = no check. */
  checkVocabSize: number | null;
  /** Split of the means to compute; null = those of a training job's rollouts. */
  metricsSplit: string | null;
}

export interface StoredGroups {
  metrics: Record<string, number>;
  /** Choices that need a record which is missing. */
  numUnknownRecords: number;
  /** Dropped calls of other models than the policy. */
  numForeignExchanges: number;
  rewards: GroupRewards;
  /** Facts of their contents. */
  contents: GroupContents;
}

/** A body with trajectory groups, parsed and valid by its schema, in this or another thread. */
export interface TrajectoryBody<Kind extends TrajectoryBodyKind = TrajectoryBodyKind> {
  readonly summary: BodySummary<Kind>;
  /**
   * Writes the groups with defaults filled in and calls as histories, one per line, after the records named
   * by choices without their own tokens.
   * @param find looks up records; null = none are looked up
   * @throws {RequestError} `request.invalid` for a group that cannot be trained, or that is nested too deeply
   * to be written
   */
  store(options: StoreGroupsOptions, find: FindRecords | null): Promise<StoredGroups>;
  /** Frees the memory. May be called at any time, and repeatedly. */
  discard(): void;
}

const checks = {
  job: compileLargeBodyCheck(CreateTrainingJobRequestSchema),
  log: compileLargeBodyCheck(LogTrajectoriesRequestSchema),
};

const NO_RECORDS: WantedRecords = { records: new Map(), numUnknown: 0 };

/** Returns the blobs for writing bodies. @throws {StoreError} `store.unavailable` */
export type OpenBlobs = () => Promise<Pick<Blobs, 'putJsonLines'>>;

export class ParsedTrajectoryBody<Kind extends TrajectoryBodyKind> implements TrajectoryBody<Kind> {
  readonly summary: BodySummary<Kind>;
  readonly #groups: SentTrajectoryGroup[];
  readonly #openBlobs: OpenBlobs;

  /**
   * @param openBlobs called by `store`
   * @throws {RequestError} `request.invalid_json`, `request.invalid`
   */
  static parse<Kind extends TrajectoryBodyKind>(
    bytes: Buffer,
    kind: Kind,
    openBlobs: OpenBlobs,
  ): ParsedTrajectoryBody<Kind> {
    const text = utf8Text(bytes);
    const body = parseJsonBody(text);
    checks[kind](body);
    const sent = body as BodyFields[Kind] & { trajectory_groups: SentTrajectoryGroup[] };
    keepArguments(sent, text);
    return new ParsedTrajectoryBody(sent, openBlobs);
  }

  private constructor(body: BodyFields[Kind] & { trajectory_groups: SentTrajectoryGroup[] }, openBlobs: OpenBlobs) {
    const { trajectory_groups: groups, ...fields } = body;
    for (const [name, value] of Object.entries(fields)) {
      if (isDeeperThan(value, MAX_JSON_DEPTH)) throw tooDeep(name);
    }
    refuseMore(MAX_GROUPS, 'groups', groups.length, 'List');
    const numTrajectories = groups.reduce((sum, group) => sum + (group.trajectories?.length ?? 0), 0);
    refuseMore(MAX_TRAJECTORIES, 'trajectories', numTrajectories);
    this.#groups = groups;
    this.#openBlobs = openBlobs;
    this.summary = {
      fields: fields as unknown as BodyFields[Kind],
      numGroups: groups.length,
      numTrajectories,
      numExceptions: groups.reduce((sum, group) => sum + (group.exceptions?.length ?? 0), 0),
    };
  }

  async store(
    { key, policy, checkVocabSize, metricsSplit }: StoreGroupsOptions,
    find: FindRecords | null,
  ): Promise<StoredGroups> {
    const { groups, numForeignExchanges } = completeGroups(this.#groups, policy);
    const { records, numUnknown } = find === null ? NO_RECORDS : await findWantedRecords(groups, find);
    if (checkVocabSize !== null) await checkGroups(groups, { vocabSize: checkVocabSize, records });
    let contents: GroupContents;
    let metrics: Record<string, number>;
    const lengths = recordLengths(records);
    const blobs = await this.#openBlobs();
    try {
      contents = groups.map(({ trajectories }) => trajectories.map((one) => trajectoryContents(one, lengths)));
      metrics =
        metricsSplit === null
          ? computeRolloutMetrics(groups, contents)
          : { ...computeLogMetrics(groups, metricsSplit), ...computeReplyMetrics(groups, contents, metricsSplit) };
      refuseMore(MAX_METRICS, 'different metric names', Object.keys(metrics).length);
      await blobs.putJsonLines(key, chain(toRecordLines(records), groups.values().map(groupLine)));
    } catch (error) {
      // The serialiser is recursive: its only RangeError is a stack overflow. Checking every value before
      // would cost more than writing.
      if (!(error instanceof RangeError)) throw error;
      throw tooDeep('trajectory_groups');
    }
    const rewards = groups.map(({ trajectories }) => trajectories.map(({ reward }) => Number(reward)));
    return { metrics, numUnknownRecords: numUnknown, numForeignExchanges, rewards, contents };
  }

  discard(): void {
    // Its memory is freed with the last reference.
  }
}

/** @throws {RequestError} `request.invalid` for data nested too deeply to be visited */
function keepArguments(body: object, text: string): void {
  try {
    keepSourceTexts(body, text);
  } catch (error) {
    throw error instanceof RangeError ? tooDeep('trajectory_groups') : error;
  }
}

function recordLengths(records: WantedRecords['records']): Map<string, number> {
  const lengths = new Map<string, number>();
  for (const [id, record] of records) if (record.kind === 'sampled') lengths.set(id, record.tokenIds.length);
  return lengths;
}

function completeGroups(groups: readonly SentTrajectoryGroup[], policy: PolicyNames) {
  try {
    const complete = groups.map((group, index) => completeGroup(group, index, policy));
    const numForeignExchanges = complete.reduce((sum, one) => sum + one.numForeignExchanges, 0);
    const whole = complete.map(({ group }) => group);
    // By now calls are histories.
    writeArgumentsOf(whole);
    return { groups: whole, numForeignExchanges };
  } catch (error) {
    throw error instanceof TrajectoryFormatError ? RequestError.invalid([error.item]) : error;
  }
}

/** Checks everything that would fail a job later. Other work gets a turn between two groups. */
async function checkGroups(groups: readonly WireTrajectoryGroup[], options: GroupOptions): Promise<void> {
  for (const [index, group] of groups.entries()) {
    try {
      trajectoryGroupOf(group, index, options);
    } catch (error) {
      if (!(error instanceof TrajectoryFormatError)) throw error;
      throw RequestError.invalid([{ ...error.item, loc: [...placeInBody(group, error.item.loc)] }]);
    }
    await nextTurn();
  }
}

function* chain(...parts: Iterable<unknown>[]): Generator<unknown> {
  for (const part of parts) yield* part;
}

function refuseMore(limit: number, what: string, number: number, holder = 'Groups'): void {
  if (number <= limit) return;
  const msg = `${holder} should have at most ${limit} ${what} in total, got ${number}; send the rest in another request`;
  throw RequestError.invalid([{ loc: ['body', 'trajectory_groups'], msg, type: 'too_long' }]);
}

function tooDeep(field: string): RequestError {
  return RequestError.invalid([{ loc: ['body', field], msg: 'Input is nested too deeply', type: 'recursion_limit' }]);
}
