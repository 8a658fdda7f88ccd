import type { FastifyInstance } from 'fastify';
import {
  type CountInputTokensRequest,
  CountInputTokensRequestSchema,
  type InputTokens,
  normalizeResponsesRequest,
  type Response,
  type ResponseEvent,
  type ResponsesRequest,
  ResponsesRequestSchema,
  type ResponseStreamError,
} from '@trainyard/protocol';

import { answerOnce } from '../../answers/idempotency.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { abortOnDisconnect } from '../../answers/sse.ts';
import type { OpenedGeneration } from '../../../seams/streams/chat-events.ts';
import { reportLeftOut } from '../../../seams/chat/left-out.ts';
import { replyBlocks } from '../shared/reply-blocks.ts';
import { collectResponse, failedResponse, toResponseEvents } from './answer.ts';
import { RESPONSES_NAMES, toCountedResponse } from './request.ts';
import { meteredChat, openChat } from '../chat/chat-generation.ts';
import { countPrompt } from '../chat/count-prompt.ts';
import { refuseStreamedIdempotency, sendOpened, type StreamForm } from '../generation/generation.ts';
import { normalizedBody } from '../generation/normalized-body.ts';
import { openTurn } from './response-turn.ts';
import { admitTurn, formatOf } from './admitted-turn.ts';
import { startInBackground } from './background-response.ts';
import { sendKeptEvents } from './kept-events.ts';

/** POST /v1/responses and /v1/responses/input_tokens: a chat in the form of OpenAI's newer API. */
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
      const sent = request.body;
      if (!sent.stream) {
        return answerOnce(parts.store, request, reply, async (completes) => {
          if (sent.background) {
            const { queued, asked } = await startInBackground(request, sent, parts, completes);
            reportLeftOut(reply, asked);
            return queued;
          }
          const { turn, chat, asked } = await admitTurn(request, sent, parts);
          reportLeftOut(reply, asked);
          return meteredChat(request, chat, parts, async (meter) => {
            const generation = await openChat(chat, signal, meter);
            const answer = await collectResponse(replyBlocks(generation, chat.format), formatOf({ turn, chat }, parts));
            signal.throwIfAborted();
            return await turn.keep(answer, chat.model, completes);
          });
        });
      }
      refuseStreamedIdempotency(request);
      if (sent.background) {
        const { key, asked } = await startInBackground(request, sent, parts);
        reportLeftOut(reply, asked);
        await sendKeptEvents(reply, { key, from: 0 }, parts, signal);
        return reply;
      }
      const { turn, chat, asked } = await admitTurn(request, sent, parts);
      reportLeftOut(reply, asked);
      const format = formatOf({ turn, chat }, parts);
      await meteredChat(request, chat, parts, async (meter) => {
        let count = 0;
        const next = () => count++;
        const eventsOf = (generation: OpenedGeneration) =>
          withKeptEnd(toResponseEvents(replyBlocks(generation, chat.format), format, next), (answer) => {
            signal.throwIfAborted();
            return turn.keep(answer, chat.model);
          });
        const form: StreamForm = {
          isNamed: true,
          toErrorEvent: ({ error: { code, message, param } }): [ResponseEvent, ResponseStreamError] => [
            {
              type: 'response.failed',
              sequence_number: next(),
              response: failedResponse({ code, message }, format),
            },
            { type: 'error', sequence_number: next(), code, message, param },
          ],
        };
        const opening = openChat(chat, signal, meter);
        await sendOpened(reply, { opening, toChunks: eventsOf }, parts, { signal, form });
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
      const turn = await openTurn(request, request.body, parts, { isUse: false });
      const body = toCountedResponse(turn.body);
      reportLeftOut(reply, body);
      const numTokens = await countPrompt(request, body, parts, signal);
      return { object: 'response.input_tokens', input_tokens: numTokens };
    },
  );
}

/** Sends the last event after the answer was kept, so that its reader finds it. */
async function* withKeptEnd(
  events: AsyncIterable<ResponseEvent>,
  keep: (answer: Response) => Promise<Response>,
): AsyncGenerator<ResponseEvent, void> {
  for await (const event of events) {
    const isLast = event.type === 'response.completed' || event.type === 'response.incomplete';
    yield isLast ? { ...event, response: await keep(event.response) } : event;
  }
}
