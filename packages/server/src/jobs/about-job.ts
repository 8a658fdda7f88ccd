import type { Job } from '@trainyard/store';

import type { LogFields } from '../seams/logging/log.ts';
import { traceIdOfJob } from '../seams/tracing/job-trace.ts';
import type { Tracing } from '../seams/tracing/tracing.ts';

/**
 * Log fields of lines about a job: the request that made it, on any machine, and its trace id if tracing is
 * on.
 */
export function aboutJob({ id, origin }: Pick<Job, 'id' | 'origin'>, tracing: Tracing | null = null): LogFields {
  return { jobId: id, requestId: origin.requestId, traceId: tracing === null ? null : traceIdOfJob(id) };
}
