import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type ChatCompletionRequest,
  ChatCompletionRequestSchema,
  normalizeChatCompletionRequest,
} from '@trainyard/protocol';

import { callerOf } from '../auth.ts';
import { ChoiceRecorder } from '../choice-records/choice-recorder.ts';
import { answerOnce } from '../idempotency.ts';
import { RequestError } from '../request-error.ts';
import type { RouteParts } from '../server-parts.ts';
import { abortOnDisconnect } from '../sse.ts';
import { collectAnswer } from '../wire/chat-answer.ts';
import { toChunks } from '../wire/chat-chunks.ts';
import { openGeneration, type TokenMeter } from '../wire/chat-events.ts';
import { answerFormatOf, checkChatRequest, toChatGenerateRequest } from '../wire/chat-request.ts';
import { constraintField } from '../wire/tool-request.ts';
import { admitModel, metered, sendChunks } from './generation.ts';

/** POST /v1/chat/completions. */
export function chatCompletionRoutes(app: FastifyInstance, parts: RouteParts): void {
  app.post<{ Body: ChatCompletionRequest }>(
    '/v1/chat/completions',
    {
      config: { scope: 'inference', samples: true },
      bodyLimit: parts.limits.chatBodyBytes,
      schema: { body: ChatCompletionRequestSchema },
      preValidation: async (request) => {
        request.body = normalizeChatCompletionRequest(request.body) as ChatCompletionRequest;
      },
    },
    async (request, reply) => {
      const signal = abortOnDisconnect(reply);
      checkChatRequest(request.body);
      if (!request.body.stream) {
        return answerOnce(parts.store, request, reply, async () => {
          const chat = await admitChat(request, parts);
          return meteredChat(request, chat, parts, async (meter) => {
            const generation = await openChat(chat, parts, signal, meter);
            return collectAnswer(generation, chat.identity, chat.format, chat.generate.n);
          });
        });
      }
      if (request.headers['idempotency-key'] !== undefined)
        throw new RequestError('request.unsupported', 'An `Idempotency-Key` is not supported together with `stream`', {
          param: 'stream',
        });
      const chat = await admitChat(request, parts);
      await meteredChat(request, chat, parts, async (meter) => {
        // The first output is awaited before a byte is sent, so that every refusal has its own HTTP status.
        const generation = await openChat(chat, parts, signal, meter);
        await sendChunks(reply, toChunks(generation, chat.identity, chat.format, chat.generate.n), parts, signal);
      });
      return reply;
    },
  );
}

async function admitChat(request: FastifyRequest<{ Body: ChatCompletionRequest }>, parts: RouteParts) {
  const { body } = request;
  const admitted = await admitModel(request, body, 'chatcmpl-', parts);
  const format = answerFormatOf(body, admitted.model, parts);
  const generate = toChatGenerateRequest(body, admitted.context, format);
  const { model } = admitted;
  const recorder =
    format.isRecorded && model.kind === 'checkpoint'
      ? new ChoiceRecorder(parts.store, { entityId: callerOf(request).entityId, model })
      : null;
  return { ...admitted, format, generate, recorder, constraintField: constraintField(body) };
}

type AdmittedChat = Awaited<ReturnType<typeof admitChat>>;

function openChat(chat: AdmittedChat, parts: RouteParts, signal: AbortSignal, meter: TokenMeter) {
  return openGeneration(parts.inference, chat.generate, signal, meter, {
    withPromptText: chat.format.hasPromptText,
    constraintField: chat.constraintField,
    recorder: chat.recorder,
  });
}

function meteredChat<Result>(
  request: FastifyRequest,
  chat: AdmittedChat,
  parts: RouteParts,
  run: (meter: TokenMeter) => Promise<Result>,
): Promise<Result> {
  return metered(request, { kind: 'chat', model: chat.model, numPrompts: 1 }, parts, ([meter]) => {
    if (meter === undefined) throw new Error('a chat has one prompt');
    return run(meter);
  });
}
