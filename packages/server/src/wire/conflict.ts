import { RequestError } from '../faults/request-error.ts';

/** A value that contradicts another field, or that this model cannot take. */
export function conflict(param: string, message: string): RequestError {
  return new RequestError('request.conflict', message, { param });
}

/** A known field that asks for what this service does not do. */
export function unsupported(param: string, reason: string): RequestError {
  return new RequestError('request.unsupported', `\`${param}\` is not supported: ${reason}`, { param });
}
