import { unsupported } from './conflict.ts';

/**
 * Tools are called by the model itself here, and not by code of its that a server runs. An empty list asks for nothing.
 *
 * @param callers `allowed_callers` of a tool of Responses or Messages
 * @param place of the tool
 * @throws {RequestError} `request.unsupported`, where the model is not among them
 */
export function refuseOtherCallers(callers: readonly string[] | null, place: string): void {
  if (callers === null || callers.length === 0 || callers.includes('direct')) return;
  throw unsupported(`${place}.allowed_callers`, 'only `direct` is supported, because the model calls tools itself');
}
