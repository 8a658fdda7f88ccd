import { isLoopbackName } from '../../seams/network/network-names.ts';
import { ServerError } from '../../seams/faults/server-error.ts';
import type { MetricsAccess } from '../../seams/metrics/metrics-access.ts';
import type { ServiceConfig } from './config.ts';
import type { Address } from '../../seams/network/listen.ts';

/**
 * Refuses a network address without `--allow-network`: keys and prompts would be sent unencrypted.
 * @throws {ServerError}
 */
export function refuseOpenNetwork({ host }: Pick<Address, 'host'>, { allowNetwork }: ServiceConfig): void {
  if (isLoopbackName(host) || allowNetwork === 'on') return;
  throw new ServerError(
    'server.config_invalid',
    `listening on ${host} exposes the API to other machines without TLS: pass --allow-network, or keep 127.0.0.1 and put a proxy with TLS in front (add its name to --allowed-hosts)`,
  );
}

/**
 * Access to the metrics at that address. An allowed foreign name indicates a proxy, whose clients may be
 * anyone.
 */
export function metricsAccess(
  { host }: Pick<Address, 'host'>,
  { metrics, allowedHosts }: Pick<ServiceConfig, 'metrics' | 'allowedHosts'>,
): MetricsAccess {
  if (metrics !== 'auto') return metrics;
  const isLocal = isLoopbackName(host) && allowedHosts.every((name) => isLoopbackName(name));
  return isLocal ? 'local' : 'key';
}
