import { ServerError } from '../../seams/faults/server-error.ts';

/** A setting that is refused; the message names it, its value and what is allowed. */
export function settingFault(message: string): ServerError {
  return new ServerError('server.config_invalid', message);
}
