import { unsupported } from './conflict.ts';

/**
 * Refuses tools that only code on a server may call: here the model calls tools itself. An empty list has no
 * effect.
 * @param callers `allowed_callers` of a tool of Responses or Messages
 * @param place of the tool
 * @throws {RequestError} `request.unsupported`, unless the model is among them
 */
export function refuseOtherCallers(callers: readonly string[] | null, place: string): void {
  if (callers === null || callers.length === 0 || callers.includes('direct')) return;
  throw unsupported(`${place}.allowed_callers`, 'only `direct` is supported, because the model calls tools itself');
}
