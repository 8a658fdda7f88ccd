import type { FastifyContextConfig } from 'fastify';

/**
 * Readers of the metrics: anybody; on this machine anybody, through a proxy keys of the scope `admin`; those keys alone; nobody.
 */
export type MetricsAccess = 'open' | 'local' | 'key' | 'off';

/** The scopes of the route of the metrics. */
export function metricsScopes(access: MetricsAccess): Pick<FastifyContextConfig, 'scope' | 'forwardedScope'> {
  if (access === 'key') return { scope: 'admin' };
  return { scope: 'public', ...(access === 'local' ? { forwardedScope: 'admin' } : {}) };
}
