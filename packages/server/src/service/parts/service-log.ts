import { readInstance } from '../../seams/data/data-directory.ts';
import type { Log } from '../../seams/logging/log.ts';
import { openLog } from '../../seams/logging/open-log.ts';
import type { ServiceConfig } from '../settings/config.ts';

/**
 * Log of a service's process, in the configured format.
 * @param write receives each line without its end
 */
export function serviceLog(
  { role, logFormat, dataDirectory }: Pick<ServiceConfig, 'role' | 'logFormat' | 'dataDirectory'>,
  write: (line: string) => void,
): Log {
  let known: string | null = null;
  // Missing before the first start on the folder.
  return openLog({ format: logFormat, role, instance: () => (known ??= readInstance(dataDirectory)) }, write);
}
