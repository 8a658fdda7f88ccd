import { TRAINING_JOB_KINDS } from '@trainyard/store';
import type { TakenStep } from '@trainyard/trainer';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

interface JobEvent {
  type: string;
  data: object;
  /** Equal for repeated events. */
  dedupeKey: string;
}

export class JobMetrics {
  readonly #claims: Counter<'kind'>;
  readonly #lostLeases: Counter<'kind'>;
  readonly #retries: Counter;
  readonly #ends: Counter<'kind' | 'outcome'>;
  readonly #steps: Counter<'kind'>;
  readonly #trainedTokens: Counter<'kind'>;
  readonly #stepSeconds: Counter<'part'>;
  readonly #snapshotSeconds: Histogram;
  readonly #snapshotBytes: Counter;
  readonly #submitted: Counter;
  readonly #trainable: Counter;
  readonly #dropped: Counter<'reason'>;
  readonly #branchedTurns: Counter;
  readonly #branchTokens: Counter;
  readonly #warnings: Counter<'code'>;
  readonly #gap: Histogram;
  readonly #largestGap: Gauge;
  /** Counted events of running jobs: a resumed job repeats some. */
  readonly #seen = new Map<string, Set<string>>();

  constructor(registry: Registry) {
    const registers = [registry];
    const counter = <Label extends string>(name: string, help: string, labelNames: Label[] = []) =>
      new Counter<Label>({ name: `trainyard_${name}`, help, labelNames, registers });
    this.#claims = counter('jobs_claimed_total', 'Jobs that this process claimed from the queue, by kind.', ['kind']);
    this.#lostLeases = counter('leases_lost_total', 'Running jobs whose lease was not renewed in time.', ['kind']);
    this.#retries = counter('job_write_retries_total', 'Retried writes of jobs, after a failure of the store.');
    this.#ends = counter('jobs_ended_total', 'Training jobs that ended.', ['kind', 'outcome']);
    this.#steps = counter('gradient_steps_total', 'Updates of weights.', ['kind']);
    this.#trainedTokens = counter('trained_tokens_total', 'Tokens in gradient steps.', ['kind']);
    this.#stepSeconds = counter('gradient_step_seconds_total', 'Time of gradient steps, by phase.', ['part']);
    this.#snapshotSeconds = new Histogram({
      name: 'trainyard_snapshot_seconds',
      help: 'Time to write a snapshot of a running job.',
      buckets: [0.05, 0.2, 0.5, 1, 2, 5, 10, 30],
      registers,
    });
    this.#snapshotBytes = counter('snapshot_bytes_total', 'Bytes of these snapshots.');
    this.#submitted = counter('groups_submitted_total', 'Trajectory groups of started jobs.');
    this.#trainable = counter('groups_trainable_total', 'Trajectory groups that are trained.');
    this.#dropped = counter('groups_dropped_total', 'Trajectory groups that are not trained, by reason.', ['reason']);
    this.#branchedTurns = counter(
      'branched_turns_total',
      'Turns trained in their own history, because their prompt does not continue the previous turns.',
    );
    this.#branchTokens = counter('branch_tokens_total', 'Prompt tokens computed only for these turns.');
    this.#warnings = counter('job_warnings_total', 'Job warnings, by code.', ['code']);
    this.#gap = new Histogram({
      name: 'trainyard_logprob_gap',
      help: 'Mean |log-probability of trainer - of sampler| of the first gradient step of each job.',
      buckets: [1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1],
      registers,
    });
    this.#largestGap = new Gauge({
      name: 'trainyard_logprob_gap_max',
      help: 'Largest difference in the first gradient step of the latest job.',
      registers,
    });
    this.#exportZeros();
  }

  /** Series start at 0: Prometheus does not see the first increase of an absent one. */
  #exportZeros(): void {
    for (const kind of TRAINING_JOB_KINDS)
      for (const outcome of ['succeeded', 'failed', 'stopped']) this.#ends.inc({ kind, outcome }, 0);
    for (const kind of [...TRAINING_JOB_KINDS, 'export', 'import', 'pull']) {
      this.#claims.inc({ kind }, 0);
      this.#lostLeases.inc({ kind }, 0);
    }
    for (const kind of TRAINING_JOB_KINDS) {
      this.#steps.inc({ kind }, 0);
      this.#trainedTokens.inc({ kind }, 0);
    }
  }

  claimed(kind: string): void {
    this.#claims.inc({ kind });
  }

  leaseLost(kind: string): void {
    this.#lostLeases.inc({ kind });
  }

  retried(): void {
    this.#retries.inc();
  }

  /** Counts a step that this process has just taken. Not called for repeated reports of a step. */
  stepTaken({ kind }: { kind: string }, { snapshot }: TakenStep, metrics: Readonly<Record<string, number>>): void {
    this.#steps.inc({ kind });
    this.#trainedTokens.inc({ kind }, countOf(metrics['num_trainable_tokens']));
    for (const [name, seconds] of Object.entries(metrics)) {
      const part = PARTS[name];
      if (part !== undefined) this.#stepSeconds.inc({ part }, countOf(seconds));
    }
    if (snapshot === null) return;
    this.#stepSeconds.inc({ part: 'snapshot' }, snapshot.seconds);
    this.#snapshotSeconds.observe(snapshot.seconds);
    this.#snapshotBytes.inc(snapshot.sizeBytes ?? 0);
  }

  see(job: { id: string; kind: string }, { type, data, dedupeKey }: JobEvent): void {
    const seen = this.#seen.get(job.id) ?? new Set();
    if (seen.has(dedupeKey)) return;
    this.#seen.set(job.id, seen.add(dedupeKey));
    const values = new Map(Object.entries(data) as [string, unknown][]);
    if (type === 'training_started') {
      this.#submitted.inc(countOf(values.get('num_groups_submitted')));
      this.#trainable.inc(countOf(values.get('num_groups_trainable')));
      this.#branchedTurns.inc(countOf(values.get('num_branched_turns')));
      this.#branchTokens.inc(countOf(values.get('num_branch_tokens')));
      for (const [reason, count] of Object.entries(values.get('dropped_groups') ?? {}))
        this.#dropped.inc({ reason }, countOf(count));
    } else if (type === 'gradient_step') {
      const [mean, max] = [values.get('fresh/logprob_gap_mean'), values.get('fresh/logprob_gap_max')];
      if (typeof mean === 'number') this.#gap.observe(mean);
      if (typeof max === 'number') this.#largestGap.set(max);
    } else if (type === 'warning') this.#warnings.inc({ code: String(values.get('code')) });
  }

  /** Counts the end of a job here: its terminal event, or its loss to another worker. */
  end(job: { id: string; kind: string }, outcome: 'succeeded' | 'failed' | 'stopped'): void {
    this.#seen.delete(job.id);
    this.#ends.inc({ kind: job.kind, outcome });
  }
}

/** Labels keyed by the name of a step's metric. */
const PARTS: Readonly<Record<string, string>> = {
  seconds_forward: 'forward',
  seconds_backward: 'backward',
  seconds_optimizer: 'optimizer',
  seconds_reference: 'reference',
};

function countOf(value: unknown): number {
  return typeof value === 'number' && value > 0 ? value : 0;
}
