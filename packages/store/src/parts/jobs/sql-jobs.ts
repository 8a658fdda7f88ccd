import assert from 'node:assert/strict';
import type { Access } from '../access.ts';
import { partsOf } from '../rows-of.ts';
import type { PlacedOutcome } from '../trajectories/trajectory-table.ts';
import type { TrajectoryOutcome } from '../trajectories/trajectories.ts';
import {
  cancelJob,
  claimNextJob,
  enqueueJob,
  finishJobFailed,
  finishJobSucceeded,
  gradientStepTaken,
  heldOutMeasured,
  keepReference,
  keepSnapshot,
  pauseJob,
  resumeJob,
  retryJob,
  TRAINING_JOB_KINDS,
} from './job-lifecycle.ts';
import type { ClaimedJob, JobKind, JobOfKind, Jobs, TerminalEventType, TrainingJobConfig } from './jobs.ts';

/**
 * Maximum time between attempts to claim in a transaction: outside of one the database's clock is an
 * estimate, which lags after a suspend of the machine.
 */
const CLAIM_IN_TURN_MS = 10_000;
/** Written only with the end of a job. */
const TERMINAL_EVENT_TYPES: ReadonlySet<string> = new Set<TerminalEventType>([
  'training_ended',
  'training_failed',
  'job_ended',
  'job_failed',
]);
/**
 * Outcomes of trajectories written per transaction; of more, most are written before the event that reports
 * them.
 */
const OUTCOMES_AT_ONCE = 5_000;

export function sqlJobs({ tables, now, write, writeAnswered }: Access): Jobs {
  /** Time of the last claim in a transaction, on the clock of `performance.now()`. */
  let claimedAt = -Infinity;

  return {
    enqueue: (input) =>
      writeAnswered(
        (own) => enqueueJob(own, input, now()),
        () => input.completes,
      ),
    get: async (jobId) => await tables.jobs.get(jobId),
    list: async (query) => await tables.jobs.list(query),
    listQueue: async (query) => await tables.jobs.listQueue(query),
    claim: async <Kind extends JobKind = TrainingJobConfig>(
      workerId: string,
      leaseMs: number,
      kinds: readonly Kind[] = TRAINING_JOB_KINDS as readonly JobKind[] as readonly Kind[],
      baseModels: readonly string[] | null = null,
    ) => {
      const wanted = { kinds, baseModels };
      // Without work a claim does not block writers, with any number of processes.
      const isFresh = performance.now() < claimedAt + CLAIM_IN_TURN_MS;
      if (isFresh && !(await tables.jobs.hasClaimable(wanted, now()))) return null;
      claimedAt = performance.now();
      // Reads the time within the transaction: the wait for it may be long, and the clock is the database's.
      const claimed = await write((own) => claimNextJob(own, { workerId, leaseMs }, wanted, now()));
      return claimed as ClaimedJob<JobOfKind<Kind>> | null;
    },
    renew: (jobId, fencingToken, leaseMs, at) =>
      write(async ({ jobs }) => {
        const { id } = await jobs.held(jobId, fencingToken);
        await jobs.extendLease(id, (at ?? now()) + leaseMs);
      }),
    release: (jobId, fencingToken) =>
      write(async ({ jobs }) => await jobs.requeue((await jobs.held(jobId, fencingToken)).id, false)),
    appendEvent: async (jobId, fencingToken, event) => {
      assert(!TERMINAL_EVENT_TYPES.has(event.type), `${event.type} is written only when the job finishes`);
      const isStep = event.type === 'gradient_step';
      assert(
        isStep || event.metrics === undefined || event.type === 'held_out',
        'only gradient steps and held-out data have metrics',
      );
      assert(isStep || event.rolloutMetrics === undefined, 'only gradient steps have metrics of rollouts');
      const dedupeKey = event.dedupeKey ?? null;
      const outcomes = placedOutcomes(event.outcomes ?? []);
      if (outcomes.length > OUTCOMES_AT_ONCE && !(await tables.events.has(jobId, dedupeKey)))
        for (const some of partsOf(outcomes.splice(OUTCOMES_AT_ONCE), OUTCOMES_AT_ONCE))
          await write(async ({ jobs, trajectories }) => {
            await jobs.held(jobId, fencingToken);
            await trajectories.setOutcomes(jobId, some);
          });
      return await write(async (own) => {
        const held = await own.jobs.held(jobId, fencingToken);
        const appended = await own.events.append(jobId, { type: event.type, data: event.data, dedupeKey }, now());
        if (appended.isDuplicate) return appended;
        if (isStep) await gradientStepTaken(own, held, event, now());
        if (event.type === 'held_out') await heldOutMeasured(own, held, event.metrics ?? {}, now());
        await own.trajectories.setOutcomes(jobId, outcomes);
        if (event.traces !== undefined) {
          const { gradientStep, traces, maxBytes } = event.traces;
          await own.trajectories.addTraces(jobId, gradientStep, traces, { maxBytes, now: now() });
        }
        return appended;
      });
    },
    succeed: (jobId, fencingToken, outcome) =>
      write((own) => finishJobSucceeded(own, { jobId, fencingToken }, outcome, now())),
    fail: (jobId, fencingToken, errorMessage, data = {}) =>
      write((own) => finishJobFailed(own, { jobId, fencingToken }, { errorMessage, data }, now())),
    cancel: (jobId, reason, completes) => writeAnswered((own) => cancelJob(own, jobId, reason, now()), completes),
    retry: (jobId, input) =>
      writeAnswered(
        (own) => retryJob(own, jobId, input, now()),
        (result) => (result?.kind === 'queued' ? input.completes : undefined),
      ),
    pause: (jobId, completes) => writeAnswered((own) => pauseJob(own, jobId, now()), completes),
    resume: (jobId, completes) => writeAnswered((own) => resumeJob(own, jobId, now()), completes),
    keepReference: (jobId, fencingToken, step) => write((own) => keepReference(own, jobId, fencingToken, step)),
    keepSnapshot: (jobId, fencingToken, snapshot) => write((own) => keepSnapshot(own, jobId, fencingToken, snapshot)),
    countEvents: async (jobId, type) => await tables.events.count(jobId, type),
    listEvents: async (query) =>
      (await tables.jobs.get(query.jobId)) === null ? null : await tables.events.list(query),
  };
}

/** Outcomes in the order of the groups. */
function placedOutcomes(groups: readonly (readonly TrajectoryOutcome[])[]): PlacedOutcome[] {
  return groups.flatMap((group, groupIndex) =>
    group.map((outcome, trajectoryIndex) => ({ groupIndex, trajectoryIndex, ...outcome })),
  );
}
