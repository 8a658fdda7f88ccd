/**
 * Faults of a service of several processes that random schedules must find. `npm run lab -- prove-mutants` puts them
 * into a copy of the sources one at a time.
 *
 * @typedef {object} ScheduleMutant
 * @property {string} name description of the fault
 * @property {readonly { readonly file: string, readonly from: string, readonly to: string }[]} edits `from` occurs once
 * @property {number} within maximum number of schedules, from seed 1 on
 */

const JOB_TABLE = 'packages/store/src/parts/jobs/job-table.ts';
const JOB_LIFECYCLE = 'packages/store/src/parts/jobs/job-lifecycle.ts';
const SQL_JOBS = 'packages/store/src/parts/jobs/sql-jobs.ts';
const IDEMPOTENCY_TABLE = 'packages/store/src/parts/idempotency/idempotency-table.ts';
const S3_BLOBS = 'packages/store/src/blobs/s3/s3-blobs.ts';
const OWN_BLOBS = 'packages/store/src/blobs/own-blobs.ts';
const ORPHANS = 'packages/store/src/blobs/orphans.ts';

/** @type {readonly ScheduleMutant[]} */
export const SCHEDULE_MUTANTS = [
  {
    name: 'fencing tokens are not compared',
    edits: [
      { file: JOB_TABLE, from: 'if (job.lease.fencingToken !== fencingToken) {', to: 'if (job.lease === null) {' },
    ],
    within: 100,
  },
  {
    name: 'a snapshot is accepted from any process',
    edits: [
      {
        file: JOB_LIFECYCLE,
        from: "  const held = await tables.jobs.held(jobId, fencingToken);\n  assert(isTrainingJob(held), 'only training has snapshots');",
        to: "  const held = await tables.jobs.get(jobId);\n  assert(held !== null && isTrainingJob(held) && fencingToken > 0, 'only training has snapshots');",
      },
    ],
    within: 100,
  },
  {
    name: 'a job without a holder is written to',
    edits: [
      {
        file: JOB_TABLE,
        from: "    if (job.lease === null) throw new StoreError('store.lease_lost', `job ${jobId} is ${job.status} and has no lease`);\n    if (job.lease.fencingToken !== fencingToken) {",
        to: '    if (job.lease !== null && job.lease.fencingToken !== fencingToken) {',
      },
    ],
    within: 100,
  },
  {
    name: 'a lease is not renewed',
    edits: [{ file: 'packages/server/src/jobs/job-lease.ts', from: 'this.#renewIn(options.heartbeatMs);', to: '' }],
    within: 100,
  },
  {
    name: 'a lease that has not ended is taken over',
    edits: [
      {
        file: JOB_TABLE,
        from: "or (j.status = 'running' and not ${holds('j.lease_expires_at')}))",
        to: "or (j.status = 'running' and (j.lease_expires_at <= ? + 28000 or j.lease_expires_at > ?)))",
      },
    ],
    within: 100,
  },
  {
    name: 'leases use the clock of each process',
    edits: [
      {
        file: 'packages/store/src/drivers/postgres/postgres-sql.ts',
        from: 'return this.#clock === null ? Date.now() : Math.round(this.#clock.now + performance.now() - this.#clock.at);',
        to: 'return this.#clock === null ? 0 : Date.now();',
      },
    ],
    within: 100,
  },
  {
    name: 'the keys of repeated events are ignored',
    edits: [
      {
        file: 'packages/store/src/parts/jobs/event-table.ts',
        from: 'if (dedupeKey !== null) {',
        to: 'if (dedupeKey === jobId) {',
      },
      {
        file: 'packages/store/src/parts/jobs/event-table.ts',
        from: '      dedupeKey,\n      now,',
        to: '      null,\n      now,',
      },
    ],
    within: 100,
  },
  {
    name: 'the end of a job is reported in a separate transaction',
    edits: [
      {
        file: JOB_LIFECYCLE,
        from: "  await tables.events.append(jobId, { type: 'training_ended', data: { ...outcome.data, ...data } }, now);\n",
        to: '',
      },
      {
        file: SQL_JOBS,
        from: '      write((own) => finishJobSucceeded(own, { jobId, fencingToken }, outcome, now())),',
        to: `      write((own) => finishJobSucceeded(own, { jobId, fencingToken }, outcome, now())).then(async (done) => {
        await write((own) => own.events.append(jobId, { type: 'training_ended', data: outcome.data ?? {} }, now()));
        return done;
      }),`,
      },
    ],
    within: 100,
  },
  {
    name: 'answers are not stored in the transaction of their effect',
    edits: [
      {
        file: 'packages/store/src/parts/access.ts',
        from: 'if (answer !== undefined) await requests.completeIn(tables, answer);',
        to: 'if (answer !== undefined && answer.status === 0) await requests.completeIn(tables, answer);',
      },
    ],
    within: 100,
  },
  {
    name: 'a pause stores no answer with its effect',
    edits: [
      {
        file: SQL_JOBS,
        from: 'writeAnswered((own) => pauseJob(own, jobId, now()), completes),',
        to: 'writeAnswered((own) => pauseJob(own, jobId, now()), completes && (() => undefined)),',
      },
      {
        file: SQL_JOBS,
        from: 'writeAnswered((own) => resumeJob(own, jobId, now()), completes),',
        to: 'writeAnswered((own) => resumeJob(own, jobId, now()), completes && (() => undefined)),',
      },
    ],
    within: 100,
  },
  {
    name: 'the process that answers a request is not checked',
    edits: [
      {
        file: IDEMPOTENCY_TABLE,
        from: "where key_id = ? and key = ? and owner = ? and status is null',\n      answer.status,",
        to: "where key_id = ? and key = ? and (owner = ? or true)',\n      answer.status,",
      },
    ],
    within: 100,
  },
  {
    name: 'a request in progress is taken over at once',
    edits: [{ file: IDEMPOTENCY_TABLE, from: 'const IN_PROGRESS_MS = 60_000;', to: 'const IN_PROGRESS_MS = -1;' }],
    within: 100,
  },
  {
    name: 'a request of a dead process stays in progress',
    edits: [
      { file: IDEMPOTENCY_TABLE, from: 'const IN_PROGRESS_MS = 60_000;', to: 'const IN_PROGRESS_MS = 86_400_000;' },
    ],
    within: 100,
  },
  {
    name: 'usage is added to the stored value',
    edits: [
      {
        file: 'packages/store/src/parts/usage/usage-buffer.ts',
        from: '          this.#rows.set(group, { ...(this.#rows.get(group) ?? newRow(sum)), isCertain: false });',
        to: '          this.#rows.delete(group);',
      },
    ],
    within: 100,
  },
  {
    name: 'a repeated step is charged again',
    edits: [
      {
        file: SQL_JOBS,
        from: 'if (appended.isDuplicate) return appended;\n        if (isStep) await gradientStepTaken(own, held, event, now());',
        to: 'if (isStep) await gradientStepTaken(own, held, event, now());\n        if (appended.isDuplicate) return appended;',
      },
    ],
    within: 100,
  },
  {
    name: 'a process does not recognise its own manifest',
    edits: [
      {
        file: S3_BLOBS,
        from: 'if (!isMine && (await this.#manifest(key))?.commit !== commit) throw directoryTaken(key);',
        to: 'if (!isMine) throw directoryTaken(key);',
      },
    ],
    within: 100,
  },
  {
    name: 'files that a row may name are removed',
    edits: [
      {
        file: 'packages/server/src/seams/data/remove-unless-named.ts',
        from: 'if (error instanceof StoreError && (await store.files.isNamed(key))) return true;\n    if (isUncertain(error))',
        to: 'if (error instanceof StoreError && key === null) return true;\n    if (error === null)',
      },
    ],
    within: 100,
  },
  {
    name: 'workers do not poll',
    edits: [
      {
        file: 'packages/server/src/jobs/work-loop.ts',
        from: 'if (!(await workOnce())) await this.#sleep(pollMs);',
        to: 'if (!(await workOnce())) await this.#sleep(pollMs * 1_000_000);',
      },
    ],
    within: 100,
  },
  {
    name: 'writers are not serialised',
    edits: [
      {
        file: 'packages/store/src/drivers/postgres/postgres-sql.ts',
        from: '`select pg_advisory_xact_lock(${WRITER_LOCK})`,',
        to: '`select 1 from (select ${WRITER_LOCK}) unlocked`,',
      },
    ],
    within: 100,
  },
  {
    name: 'an outage of the blobs fails a training job',
    edits: [
      {
        file: 'packages/server/src/hosts/training/train-job.ts',
        from: 'throw blobFault(error) ?? error;',
        to: 'throw (blobFault(error), error);',
      },
    ],
    within: 100,
  },
  {
    name: 'an empty database claims blobs with content',
    edits: [
      {
        file: OWN_BLOBS,
        from: '  if (others.length > 0) return belongsToAnother(place, others);\n',
        to: '',
      },
      {
        file: OWN_BLOBS,
        from: 'if (id === null && !(await namesContent(store, blobs)))',
        to: 'if (id === null && (await namesContent(store, blobs)) === null)',
      },
      {
        file: OWN_BLOBS,
        from: '  if (adopts || rivals.length === 0) return;',
        to: '  if (adopts || rivals.length >= 0) return;',
      },
    ],
    within: 10,
  },
  {
    name: 'blobs that the database never knew are orphans',
    edits: [
      { file: ORPHANS, from: '      .filter(({ key }) => known.has(key))\n', to: '' },
      { file: ORPHANS, from: 'unknown: unnamed.filter(({ key }) => !known.has(key)),', to: 'unknown: [],' },
    ],
    within: 20,
  },
  {
    name: 'upkeep trusts every clock',
    edits: [
      {
        file: 'packages/server/src/seams/data/clock-watch.ts',
        from: 'if (isTrusted || Math.abs(step) <= DAY_MS)',
        to: 'if (isTrusted || !Number.isNaN(step))',
      },
    ],
    within: 10,
  },
];
