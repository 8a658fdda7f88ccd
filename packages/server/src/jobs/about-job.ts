import type { Job } from '@trainyard/store';

import type { LogFields } from '../seams/logging/log.ts';
import { traceIdOfJob } from '../seams/tracing/job-trace.ts';
import type { Tracing } from '../seams/tracing/tracing.ts';

/** Fields of every line of the log about a job: the request that made it, wherever the job runs, and its trace where there are traces. */
export function aboutJob({ id, origin }: Pick<Job, 'id' | 'origin'>, tracing: Tracing | null = null): LogFields {
  return { jobId: id, requestId: origin.requestId, traceId: tracing === null ? null : traceIdOfJob(id) };
}
