import { createHash } from 'node:crypto';

import { type Context, ROOT_CONTEXT, type Span, SpanStatusCode, trace } from '@opentelemetry/api';
import type { Job } from '@trainyard/store';
import type { TakenStep } from '@trainyard/trainer';

import { readTraceParent } from './trace-parent.ts';
import type { Tracing } from './tracing.ts';

type TracedJob = Pick<Job, 'id' | 'kind' | 'modelId' | 'createdAt' | 'origin'>;

/** End of a job; `stopped`: it was cancelled, or its model deleted. */
export type JobOutcome = 'succeeded' | 'failed' | 'stopped';

/**
 * A job as a trace of its own; its id is the job's without dashes. Each worker adds an `attempt`. The span of
 * the whole job is created by the worker that ends it, and links to the request that made the job.
 */
export class JobTrace {
  readonly #tracing: Tracing;
  readonly #whole: Span;
  readonly #attempt: Span;
  readonly #inAttempt: Context;
  #lastStepAt = Date.now();
  #numSteps = 0;

  constructor(tracing: Tracing, job: TracedJob, number: number) {
    this.#tracing = tracing;
    this.#whole = wholeJob(tracing, job);
    this.#attempt = tracing.tracer.startSpan(
      'attempt',
      { attributes: { 'trainyard.job.id': job.id, 'trainyard.job.claim': number } },
      trace.setSpan(ROOT_CONTEXT, this.#whole),
    );
    this.#inAttempt = trace.setSpan(ROOT_CONTEXT, this.#attempt);
  }

  stepTaken(index: number, { seconds, snapshot }: TakenStep, metrics: Readonly<Record<string, number>>): void {
    const { tracer } = this.#tracing;
    const endedAt = Date.now();
    const snapshotAt = endedAt - 1000 * (snapshot?.seconds ?? 0);
    const step = tracer.startSpan(
      'gradient step',
      {
        startTime: snapshotAt - 1000 * seconds,
        attributes: { 'trainyard.gradient_step.index': index, ...partsOf(metrics) },
      },
      this.#inAttempt,
    );
    if (snapshot !== null) {
      const { sizeBytes } = snapshot;
      const attributes = sizeBytes === null ? {} : { 'trainyard.snapshot.size': sizeBytes };
      tracer
        .startSpan('snapshot', { startTime: snapshotAt, attributes }, trace.setSpan(ROOT_CONTEXT, step))
        .end(endedAt);
    }
    step.end(endedAt);
    this.#lastStepAt = endedAt;
    this.#numSteps += 1;
  }

  /** Records the writing of the checkpoint's files, from the last step until now. */
  checkpointCommitted(step: number): void {
    const attributes = { 'trainyard.checkpoint.step': step };
    this.#tracing.tracer
      .startSpan('checkpoint commit', { startTime: this.#lastStepAt, attributes }, this.#inAttempt)
      .end();
  }

  /** @param outcome null: the worker leaves the job, which continues later, here or elsewhere */
  end(outcome: JobOutcome | null, errorCode: string | null = null): void {
    this.#attempt.setAttribute('trainyard.job.outcome', outcome ?? 'left');
    this.#attempt.setAttribute('trainyard.job.gradient_steps', this.#numSteps);
    if (errorCode !== null) recordError(this.#attempt, errorCode);
    this.#attempt.end();
    // An unended span is not sent: the job is not over.
    if (outcome !== null) endWhole(this.#whole, outcome, errorCode);
  }
}

export function traceJobStopped(tracing: Tracing | null, job: TracedJob): void {
  if (tracing !== null) endWhole(wholeJob(tracing, job), 'stopped', null);
}

export function traceIdOfJob(jobId: string): string {
  const digits = jobId.replaceAll('-', '');
  return /^[0-9a-f]{32}$/.test(digits) ? digits : digestOf(jobId).slice(0, 32);
}

function wholeJob(tracing: Tracing, job: TracedJob): Span {
  const made = readTraceParent(job.origin.traceParent);
  const { requestId } = job.origin;
  return tracing.withIds({ traceId: traceIdOfJob(job.id), spanId: digestOf(job.id).slice(-16) }, () =>
    tracing.tracer.startSpan(`job ${job.kind}`, {
      root: true,
      startTime: job.createdAt,
      links: made === null ? [] : [{ context: made }],
      attributes: {
        'trainyard.job.id': job.id,
        'trainyard.job.kind': job.kind,
        ...(job.modelId === null ? {} : { 'trainyard.model.id': job.modelId }),
        ...(requestId === null ? {} : { 'trainyard.request.id': requestId }),
      },
    }),
  );
}

function endWhole(whole: Span, outcome: JobOutcome, errorCode: string | null): void {
  whole.setAttribute('trainyard.job.outcome', outcome);
  if (errorCode !== null) recordError(whole, errorCode);
  whole.end();
}

function recordError(span: Span, code: string): void {
  span.setAttribute('error.type', code);
  span.setStatus({ code: SpanStatusCode.ERROR });
}

/** Times of a step's parts and its trainable tokens. */
function partsOf(metrics: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(metrics)
      .filter(([name]) => name.startsWith('seconds_') || name === 'num_trainable_tokens')
      .map(([name, value]) => [`trainyard.gradient_step.${name}`, value]),
  );
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
