import { ServerError } from '../../seams/faults/server-error.ts';

/** A refused setting. The message has its name, its value and the allowed values. */
export function settingFault(message: string): ServerError {
  return new ServerError('server.config_invalid', message);
}
