import type { RequestErrorCode } from '@trainyard/protocol';
import { StoreError, type StoreErrorCode } from '@trainyard/store';

import { RequestError } from '../../seams/faults/request-error.ts';
import type { ThreadFailure } from './messages.ts';

export function toThreadFailure(error: unknown): ThreadFailure {
  if (error instanceof RequestError) {
    const { code, message, param, items } = error;
    return { origin: 'request', code, message, param, items };
  }
  const plain = { param: null, items: null };
  if (error instanceof StoreError) return { origin: 'store', code: error.code, message: error.message, ...plain };
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { origin: 'other', code: 'internal', message, ...plain };
}

/** Restores an error with its class. */
export function fromThreadFailure({ origin, code, message, param, items }: ThreadFailure): Error {
  switch (origin) {
    case 'request':
      return new RequestError(code as RequestErrorCode, message, { param, ...(items === null ? {} : { items }) });
    case 'store':
      return new StoreError(code as StoreErrorCode, message);
    case 'other':
      return new Error(message);
    default:
      return origin satisfies never;
  }
}
