import type { FastifyInstance } from 'fastify';
import {
  type CountInputTokensRequest,
  CountInputTokensRequestSchema,
  type InputTokens,
  normalizeResponsesRequest,
  type ResponsesRequest,
  ResponsesRequestSchema,
  type ResponseStreamError,
} from '@trainyard/protocol';

import { answerOnce } from '../../answers/idempotency.ts';
import type { RouteParts } from '../server-parts.ts';
import { abortOnDisconnect } from '../../answers/sse.ts';
import { checkChatRequest } from '../../wire/chat/chat-request.ts';
import { replyBlocks } from '../../wire/reply-blocks.ts';
import { collectResponse, type ResponseFormat, toResponseEvents } from '../../wire/responses/responses-answer.ts';
import { fromResponsesRequest, RESPONSES_NAMES, toCountedResponse } from '../../wire/responses/responses-request.ts';
import { clientTools } from '../../wire/responses/responses-tools.ts';
import { admitChat, type AdmittedChat, meteredChat, openChat } from './chat-generation.ts';
import { countPrompt } from './count-prompt.ts';
import { refuseStreamedIdempotency, sendChunks } from './generation.ts';
import { normalizedBody } from './normalized-body.ts';

/** POST /v1/responses and /v1/responses/input_tokens: a chat in the form of OpenAI's newer API, of which nothing is kept. */
export function responseRoutes(app: FastifyInstance, parts: RouteParts): void {
  app.post<{ Body: ResponsesRequest }>(
    '/v1/responses',
    {
      config: { scope: 'inference', samples: true, holdsAnswer: true, fieldNames: RESPONSES_NAMES },
      bodyLimit: parts.limits.chatBodyBytes,
      schema: { body: ResponsesRequestSchema },
      preValidation: normalizedBody(normalizeResponsesRequest),
    },
    async (request, reply) => {
      const signal = abortOnDisconnect(reply);
      const body = fromResponsesRequest(request.body);
      checkChatRequest(body);
      const formatOf = ({ identity, format }: AdmittedChat): ResponseFormat => ({
        identity,
        body: request.body,
        toolOf: clientTools(request.body),
        hasLogprobs: format.hasLogprobs,
        clock: parts.clock,
      });
      if (!body.stream) {
        return answerOnce(parts.store, request, reply, async () => {
          const chat = await admitChat(request, body, 'resp_', parts);
          return meteredChat(request, chat, parts, async (meter) => {
            const generation = await openChat(chat, signal, meter);
            return collectResponse(replyBlocks(generation, chat.format), formatOf(chat));
          });
        });
      }
      refuseStreamedIdempotency(request);
      const chat = await admitChat(request, body, 'resp_', parts);
      await meteredChat(request, chat, parts, async (meter) => {
        // The first output is awaited before a byte is sent, so that every refusal has its own HTTP status.
        const generation = await openChat(chat, signal, meter);
        let count = 0;
        const next = () => count++;
        const events = toResponseEvents(replyBlocks(generation, chat.format), formatOf(chat), next);
        await sendChunks(reply, events, parts, signal, {
          isNamed: true,
          toErrorEvent: ({ error: { code, message, param } }): ResponseStreamError => ({
            type: 'error',
            sequence_number: next(),
            code,
            message,
            param,
          }),
        });
      });
      return reply;
    },
  );

  app.post<{ Body: CountInputTokensRequest }>(
    '/v1/responses/input_tokens',
    {
      config: { scope: 'inference', fieldNames: RESPONSES_NAMES },
      bodyLimit: parts.limits.chatBodyBytes,
      schema: { body: CountInputTokensRequestSchema },
    },
    async (request, reply): Promise<InputTokens> => {
      const signal = abortOnDisconnect(reply);
      const numTokens = await countPrompt(request, toCountedResponse(request.body), parts, signal);
      return { object: 'response.input_tokens', input_tokens: numTokens };
    },
  );
}
