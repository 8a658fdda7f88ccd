import type { FastifyInstance } from 'fastify';
import {
  type ChatCompletionRequest,
  ChatCompletionRequestSchema,
  normalizeChatCompletionRequest,
} from '@trainyard/protocol';

import { answerOnce } from '../../answers/idempotency.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { abortOnDisconnect } from '../../answers/sse.ts';
import type { OpenedGeneration } from '../../../seams/streams/chat-events.ts';
import { collectAnswer } from './answer.ts';
import { toChunks } from './chunks.ts';
import { checkChatRequest } from './request.ts';
import { toReadableChat } from '../../../seams/chat/readable-results.ts';
import { reportLeftOut } from '../../../seams/chat/left-out.ts';
import { admitChat, meteredChat, openChat } from './chat-generation.ts';
import { refuseStreamedIdempotency, sendOpened } from '../generation/generation.ts';
import { normalizedBody } from '../generation/normalized-body.ts';

/** POST /v1/chat/completions. */
export function chatCompletionRoutes(app: FastifyInstance, parts: RouteParts): void {
  app.post<{ Body: ChatCompletionRequest }>(
    '/v1/chat/completions',
    {
      config: { scope: 'inference', samples: true },
      bodyLimit: parts.limits.chatBodyBytes,
      schema: { body: ChatCompletionRequestSchema },
      preValidation: normalizedBody(normalizeChatCompletionRequest),
    },
    async (request, reply) => {
      const signal = abortOnDisconnect(reply);
      const body = toReadableChat(request.body);
      checkChatRequest(body);
      reportLeftOut(reply, body);
      if (!body.stream) {
        return answerOnce(parts.store, request, reply, async () => {
          const chat = await admitChat(request, body, parts, { idPrefix: 'chatcmpl-' });
          return meteredChat(request, chat, parts, async (meter) => {
            const generation = await openChat(chat, signal, meter);
            return collectAnswer(generation, chat.identity, chat.format, chat.generate.n);
          });
        });
      }
      refuseStreamedIdempotency(request);
      const chat = await admitChat(request, body, parts, { idPrefix: 'chatcmpl-' });
      await meteredChat(request, chat, parts, (meter) => {
        const chunksOf = (generation: OpenedGeneration) =>
          toChunks(generation, chat.identity, chat.format, chat.generate.n);
        return sendOpened(reply, { opening: openChat(chat, signal, meter), toChunks: chunksOf }, parts, { signal });
      });
      return reply;
    },
  );
}
