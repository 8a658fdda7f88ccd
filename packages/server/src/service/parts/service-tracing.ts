import { instanceOf } from '../../seams/data/data-directory.ts';
import type { Log } from '../../seams/logging/log.ts';
import { openTracing } from '../../seams/tracing/open-tracing.ts';
import type { Tracing } from '../../seams/tracing/tracing.ts';
import type { ServiceConfig } from '../settings/config.ts';
import { SERVICE_VERSION } from '../../seams/contract/service-version.ts';

/** Tracing of a service's process, whose data folder is open; null unless requested. */
export async function serviceTracing(
  { role, dataDirectory }: Pick<ServiceConfig, 'role' | 'dataDirectory'>,
  log: Log,
): Promise<Tracing | null> {
  return await openTracing({ serviceVersion: SERVICE_VERSION, role, instance: instanceOf(dataDirectory), log });
}
