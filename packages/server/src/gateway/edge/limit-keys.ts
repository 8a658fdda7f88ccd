import type { FastifyInstance, FastifyReply } from 'fastify';
import { type LimitedWork, NO_LIMITS } from '@trainyard/store';

import { callerOf } from './auth.ts';
import type { Admission } from '../key-limits/admission.ts';
import type {} from './detached-request.ts';
import type { KeyLimiter } from '../key-limits/key-limiter.ts';
import type { RateHeaders } from '../key-limits/limit-words.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route queues work, which counts as a request for the limits of its key. */
    submits?: boolean;
    /** Headers that report the key's limits. Default: OpenAI's. */
    toRateHeaders?: RateHeaders;
  }
  interface FastifyRequest {
    /** Set once the key's limits have admitted the request; null if nothing of it is limited. */
    admission: Admission | null;
  }
}

/**
 * Applies the limits of keys to requests, before a body is read. Call it after `requireKeys`. A key without
 * limits costs a comparison.
 */
export function limitKeys(app: FastifyInstance, limiter: KeyLimiter): void {
  app.decorateRequest('admission', null);
  app.decorateRequest('detachedEnd', null);
  app.addHook('onClose', () => limiter.close());
  app.addHook('onRequest', (request, reply, done) => {
    const { samples = false, submits = false } = request.routeOptions.config;
    const isCounted = samples || submits;
    if (!isCounted || (request.caller?.limits ?? null) === null) return done();
    void admit(limiter, reply, samples ? 'sample' : 'submit', done);
  });
}

async function admit(
  limiter: KeyLimiter,
  reply: FastifyReply,
  work: LimitedWork,
  done: (error?: Error) => void,
): Promise<void> {
  const { request } = reply;
  try {
    const { keyId, limits } = callerOf(request);
    const admission = await limiter.admit(keyId, limits ?? NO_LIMITS, work, request.routeOptions.config.toRateHeaders);
    request.admission = admission;
    // Also if the client has left during the wait.
    const release = () => limiter.end(keyId, admission);
    request.end.onEnd(() => (request.detachedEnd ?? request.end).onEnd(release));
    reply.headers(admission.headers);
  } catch (error) {
    done(error as Error);
    return;
  }
  done();
}
