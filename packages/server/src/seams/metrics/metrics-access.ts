import type { FastifyContextConfig } from 'fastify';

/**
 * Access to the metrics: everyone; everyone on this machine, but through a proxy only keys with scope
 * `admin`; only such keys; no one.
 */
export type MetricsAccess = 'open' | 'local' | 'key' | 'off';

export function metricsScopes(access: MetricsAccess): Pick<FastifyContextConfig, 'scope' | 'forwardedScope'> {
  if (access === 'key') return { scope: 'admin' };
  return { scope: 'public', ...(access === 'local' ? { forwardedScope: 'admin' } : {}) };
}
