import type { FastifyRequest } from 'fastify';
import type { JobOrigin } from '@trainyard/store';

import { projectOf } from '../edge/auth.ts';
import { traceParentOf } from '../../seams/tracing/trace-parent.ts';

export function originOf(request: FastifyRequest): JobOrigin {
  return { requestId: request.id, traceParent: traceParentOf(request), project: projectOf(request) };
}
