import type { FastifyContextConfig, FastifyInstance, FastifyRequest } from 'fastify';
import {
  type CountTokens,
  type CountTokensRequest,
  CountTokensRequestSchema,
  type MessagesRequest,
  MessagesRequestSchema,
  normalizeMessagesRequest,
} from '@trainyard/protocol';

import { answerOnce } from '../../answers/idempotency.ts';
import { anthropicRateHeaders } from '../../key-limits/limit-words.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { abortOnDisconnect } from '../../answers/sse.ts';
import type { OpenedGeneration } from '../../../seams/streams/chat-events.ts';
import { checkChatRequest } from '../chat/request.ts';
import { collectMessage, type MessageFormat, toMessageEvents } from './answer.ts';
import { toMessagesError } from './error.ts';
import { MESSAGES_NAMES, toChatRequest, toCountedChat } from './request.ts';
import { reportLeftOut } from '../../../seams/chat/left-out.ts';
import { replyBlocks } from '../shared/reply-blocks.ts';
import { admitChat, type AdmittedChat, meteredChat, openChat } from '../chat/chat-generation.ts';
import { countPrompt } from '../chat/count-prompt.ts';
import { refuseStreamedIdempotency, sendOpened, type StreamForm } from '../generation/generation.ts';
import { normalizedBody } from '../generation/normalized-body.ts';

const CONFIG: FastifyContextConfig = {
  scope: 'inference',
  fieldNames: MESSAGES_NAMES,
  toErrorForm: toMessagesError,
  toRateHeaders: anthropicRateHeaders,
};

/** POST /v1/messages and /v1/messages/count_tokens: a chat in the form of the Anthropic API. */
export function messageRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store } = parts;

  app.post<{ Body: MessagesRequest }>(
    '/v1/messages',
    {
      config: { ...CONFIG, samples: true },
      bodyLimit: parts.limits.chatBodyBytes,
      schema: { body: MessagesRequestSchema },
      preValidation: normalizedBody(normalizeMessagesRequest),
    },
    async (request, reply) => {
      const signal = abortOnDisconnect(reply);
      // Clients of this form show it in their errors.
      reply.header('request-id', request.id);
      const body = toChatRequest(request.body);
      checkChatRequest(body);
      reportLeftOut(reply, body);
      const answering = async <Result>(
        run: (opening: Promise<OpenedGeneration>, chat: AdmittedChat) => Promise<Result>,
      ): Promise<Result> => {
        const chat = await admitChat(request, body, parts, { idPrefix: 'msg_', stopsInReasoning: false });
        return meteredChat(request, chat, parts, (meter) => run(openChat(chat, signal, meter), chat));
      };
      if (!body.stream) {
        return answerOnce(store, request, reply, () =>
          answering(async (opening, chat) => {
            const generation = await opening;
            return collectMessage(blocksOf(generation, chat), formatOf(request.body, generation, chat));
          }),
        );
      }
      refuseStreamedIdempotency(request);
      await answering((opening, chat) => {
        const eventsOf = (generation: OpenedGeneration) =>
          toMessageEvents(blocksOf(generation, chat), formatOf(request.body, generation, chat));
        return sendOpened(reply, { opening, toChunks: eventsOf }, parts, { signal, form: streamForm(request) });
      });
      return reply;
    },
  );

  app.post<{ Body: CountTokensRequest }>(
    '/v1/messages/count_tokens',
    {
      config: CONFIG,
      bodyLimit: parts.limits.chatBodyBytes,
      schema: { body: CountTokensRequestSchema },
    },
    async (request, reply): Promise<CountTokens> => {
      const signal = abortOnDisconnect(reply);
      const body = toCountedChat(request.body);
      reportLeftOut(reply, body);
      const numTokens = await countPrompt(request, body, parts, signal);
      const unedited = hasEdits(request.body) ? { context_management: { original_input_tokens: numTokens } } : {};
      return { input_tokens: numTokens, ...unedited };
    },
  );
}

function blocksOf(generation: OpenedGeneration, { format }: AdmittedChat) {
  return replyBlocks(generation, format);
}

function hasEdits({ context_management: management }: CountTokensRequest): boolean {
  return (management?.edits ?? []).length > 0;
}

function formatOf(
  body: MessagesRequest,
  { started }: OpenedGeneration,
  { identity, context, recorder }: AdmittedChat,
): MessageFormat {
  return {
    omitsThoughts: (body.thinking?.display ?? 'summarized') !== 'summarized',
    hasEdits: hasEdits(body),
    identity,
    contextLength: context.contextLength,
    promptTokens: started.promptTokenIds.length,
    cachedTokens: started.cachedTokens,
    recordId: recorder?.idOf(0) ?? null,
  };
}

function streamForm({ id }: FastifyRequest): StreamForm {
  return { isNamed: true, toErrorEvent: (body) => toMessagesError(body, id, null) };
}
