import { queryOptions } from '@tanstack/react-query';
import type { ChatCompletionChunk, ChatMessageBody } from '@trainyard/sdk';

import { client } from './client.ts';

/** All names that accept requests: base models, trained models with their steps, adapters. */
export const servedModelsQuery = queryOptions({
  queryKey: ['models', 'served'],
  // Large, and an event refetches it.
  meta: { isSteady: true },
  queryFn: ({ signal }) => client.servedModels.list({ signal }),
});

/** The service's OpenAPI document; the form of the chat is built from it. */
export const chatSchemaQuery = queryOptions({
  queryKey: ['openapi', 'chat'],
  queryFn: async ({ signal }): Promise<unknown> => {
    const response = await fetch('/openapi.json', { signal });
    if (!response.ok) throw new Error(`The description of the API answered with status ${response.status}`);
    return await response.json();
  },
  staleTime: Infinity,
  meta: { isSteady: true },
});

/** Streams the chunks of the replies to a request. @param body everything but `stream` */
export async function streamChat(
  body: Readonly<Record<string, unknown>> & { readonly model: string },
  signal: AbortSignal,
): Promise<AsyncIterable<ChatCompletionChunk>> {
  // The form takes its fields and their types from the service.
  const whole = { ...body, stream: true } as unknown as Parameters<typeof client.chat.completions.create>[0] & {
    stream: true;
  };
  // A started stream has no time limit.
  return await client.chat.completions.create(whole, { signal, timeoutMs: 600_000, maxRetries: 0 });
}

/** The most likely reply to a prompt, at most 96 tokens. */
export async function sampleReply(model: string, messages: readonly object[]): Promise<string> {
  const body = { model, temperature: 0, max_tokens: 96, stream: false } as const;
  const answer = await client.chat.completions.create({ ...body, messages: messages as readonly ChatMessageBody[] });
  return answer.choices[0]?.message.content ?? '';
}
