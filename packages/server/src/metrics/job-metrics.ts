import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** An event of a job, as clients read it. */
interface JobEvent {
  type: string;
  data: object;
  /** The same for a repeated event. */
  dedupeKey: string;
}

/** Counters of jobs since the start of the service. */
export class JobMetrics {
  readonly #ends: Counter<'kind' | 'outcome'>;
  readonly #steps: Counter<'kind'>;
  readonly #submitted: Counter;
  readonly #trainable: Counter;
  readonly #dropped: Counter<'reason'>;
  readonly #branchedTurns: Counter;
  readonly #branchTokens: Counter;
  readonly #warnings: Counter<'code'>;
  readonly #gap: Histogram;
  readonly #largestGap: Gauge;
  /** Events of running jobs that were counted: a resumed job tells some again. */
  readonly #seen = new Map<string, Set<string>>();

  constructor(registry: Registry) {
    const registers = [registry];
    const counter = <Label extends string>(name: string, help: string, labelNames: Label[] = []) =>
      new Counter<Label>({ name: `trainyard_${name}`, help, labelNames, registers });
    this.#ends = counter('jobs_ended_total', 'Training jobs that ended.', ['kind', 'outcome']);
    this.#steps = counter('gradient_steps_total', 'Updates of weights.', ['kind']);
    this.#submitted = counter('groups_submitted_total', 'Trajectory groups of jobs that began.');
    this.#trainable = counter('groups_trainable_total', 'Of them, those that are trained.');
    this.#dropped = counter('groups_dropped_total', 'Of them, those that are not, by reason.', ['reason']);
    this.#branchedTurns = counter(
      'branched_turns_total',
      'Turns trained in a history of their own, as they were sampled behind other tokens than the turns before them.',
    );
    this.#branchTokens = counter('branch_tokens_total', 'Prompt tokens that are computed for these alone.');
    this.#warnings = counter('job_warnings_total', 'Warnings of jobs, by code.', ['code']);
    this.#gap = new Histogram({
      name: 'trainyard_logprob_gap',
      help: 'Mean |log-probability of trainer - of sampler| of each gradient step.',
      buckets: [1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1],
      registers,
    });
    this.#largestGap = new Gauge({
      name: 'trainyard_logprob_gap_max',
      help: 'The largest single one of the latest gradient step.',
      registers,
    });
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
      this.#steps.inc({ kind: job.kind });
      const [mean, max] = [values.get('logprob_gap_mean'), values.get('logprob_gap_max')];
      if (typeof mean === 'number') this.#gap.observe(mean);
      if (typeof max === 'number') this.#largestGap.set(max);
    } else if (type === 'warning') this.#warnings.inc({ code: String(values.get('code')) });
  }

  /** A job has its terminal event, or another worker has the job. */
  end(job: { id: string; kind: string }, outcome: 'succeeded' | 'failed' | 'stopped'): void {
    this.#seen.delete(job.id);
    this.#ends.inc({ kind: job.kind, outcome });
  }
}

function countOf(value: unknown): number {
  return typeof value === 'number' && value > 0 ? value : 0;
}
