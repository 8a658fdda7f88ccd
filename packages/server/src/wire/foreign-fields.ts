import { BackendFailure } from '../faults/http-faults.ts';
import { RequestError } from '../faults/request-error.ts';
import { unsupported } from './conflict.ts';

/** Names in a foreign form for the fields of a chat: `messages` → `input`, say. */
export type ForeignNames = Readonly<Record<string, string>>;

/**
 * Refuses what is set and would be ignored. Null asks for nothing.
 *
 * @param reasons why some are not there; others are only named
 * @throws {RequestError} `request.unsupported` naming the first of them
 */
export function refuseOtherFields(
  value: Readonly<Record<string, unknown>>,
  known: Iterable<string>,
  place: string | null = null,
  reasons: Readonly<Record<string, string>> = {},
): void {
  const names = new Set(known);
  for (const [name, member] of Object.entries(value)) {
    if (names.has(name) || member === null || member === undefined) continue;
    const reason = Object.hasOwn(reasons, name) ? reasons[name] : undefined;
    const path = place === null ? name : `${place}.${name}`;
    throw unsupported(path, reason ?? `known here are ${[...names].join(', ')}`);
  }
}

/** Runs what speaks of a chat's fields; its refusals tell those of the foreign form. */
export async function withForeignNames<Result>(names: ForeignNames, run: () => Promise<Result>): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    throw toForeignFault(error, names);
  }
}

function toForeignFault(error: unknown, names: ForeignNames): unknown {
  const rename = (path: string) => {
    const [first = '', ...rest] = path.split('.');
    return [Object.hasOwn(names, first) ? names[first] : first, ...rest].join('.');
  };
  // Messages name fields in backticks.
  const reword = (message: string) =>
    message.replaceAll(/`([\w.]+)`/g, (_whole, path: string) => `\`${rename(path)}\``);
  if (error instanceof BackendFailure)
    return new BackendFailure(error.code, reword(error.message), error.param && rename(error.param));
  if (!(error instanceof RequestError)) return error;
  return new RequestError(error.code, reword(error.message), {
    param: error.param && rename(error.param),
    ...(error.items === null ? {} : { items: error.items }),
    headers: { ...error.headers },
    cause: error,
  });
}
