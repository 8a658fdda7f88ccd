import { createHash } from 'node:crypto';

import type { SampleParams } from '@trainyard/backend';
import { saltOf } from '../wire/request-fields.ts';

/**
 * Tokens of a prompt that select its server: the choices of a group, and the turns of a conversation, share
 * them.
 */
const HEAD_TOKENS = 64;

/** Key that is equal for requests that can share a cache: adapter, namespace and start of the prompt. */
export function poolKey(
  tokenIds: readonly number[],
  params: Pick<SampleParams, 'tenant' | 'cacheSalt' | 'adapter'>,
): string {
  const head = Int32Array.from(tokenIds.slice(0, HEAD_TOKENS));
  return createHash('sha256').update(saltOf(params)).update(head).digest('base64url');
}
