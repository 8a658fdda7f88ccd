import { RequestError } from '../request-error.ts';

/** A value that contradicts another field, or that this model cannot take. */
export function conflict(param: string, message: string): RequestError {
  return new RequestError('request.conflict', message, { param });
}
