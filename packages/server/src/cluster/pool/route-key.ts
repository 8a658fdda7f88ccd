import { createHash } from 'node:crypto';

import type { InferenceRequest } from '../../seams/contract/backends.ts';

/** Length of a prompt's head, which decides its engine: in characters and in tokens. */
const HEAD_CHARACTERS = 1_024;
const HEAD_TOKENS = 64;

/**
 * Equal for requests that can share a cache: adapter, namespace and the head of the prompt, which the choices
 * of a group and the turns of a conversation have in common.
 */
export function routeKey({ adapter, tenant, cacheSalt, prompt }: InferenceRequest): string {
  const parts = [adapter?.digest ?? null, tenant, cacheSalt, headOf(prompt)];
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url');
}

function headOf(prompt: InferenceRequest['prompt']): unknown {
  switch (prompt.kind) {
    case 'tokens':
      return prompt.tokenIds.slice(0, HEAD_TOKENS);
    case 'text':
      return prompt.text.slice(0, HEAD_CHARACTERS);
    case 'chat': {
      // The turns of a conversation share everything up to its first user message.
      const first = prompt.messages.findIndex(({ role }) => role === 'user');
      const messages = prompt.messages.slice(0, first + 1);
      return [head(prompt.tools), ...messages.map(({ role, content }) => [role, head(content)])];
    }
    default:
      return prompt satisfies never;
  }
}

function head(content: unknown): string {
  return (typeof content === 'string' ? content : (JSON.stringify(content) ?? '')).slice(0, HEAD_CHARACTERS);
}
