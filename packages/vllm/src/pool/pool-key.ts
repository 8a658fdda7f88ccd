import { createHash } from 'node:crypto';

import type { SampleParams } from '@trainyard/backend';
import { saltOf } from '../wire/request-fields.ts';

/** Tokens of a prompt that decide where it goes: the choices of a group, and the turns of a conversation, have them in common. */
const HEAD_TOKENS = 64;

/** Requests that would find each other's cache have the same key: adapter, namespace and the head of the prompt. */
export function poolKey(
  tokenIds: readonly number[],
  params: Pick<SampleParams, 'tenant' | 'cacheSalt' | 'adapter'>,
): string {
  const head = Int32Array.from(tokenIds.slice(0, HEAD_TOKENS));
  return createHash('sha256').update(saltOf(params)).update(head).digest('base64url');
}
