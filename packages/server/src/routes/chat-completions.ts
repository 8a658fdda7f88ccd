import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import {
  type ChatCompletionRequest,
  ChatCompletionRequestSchema,
  normalizeChatCompletionRequest,
} from '@trainyard/protocol';

import { callerOf, projectOf } from '../auth.ts';
import { findAdapter } from '../backends.ts';
import { toErrorAnswer } from '../http-faults.ts';
import { answerOnce } from '../idempotency.ts';
import { type ResolvedModel, resolveModelName } from '../model-names.ts';
import { RequestError } from '../request-error.ts';
import type { RouteParts } from '../server-parts.ts';
import { abortOnDisconnect, sendEventStream } from '../sse.ts';
import { type AnswerIdentity, collectAnswer, fingerprintOf } from '../wire/chat-answer.ts';
import { toChunks } from '../wire/chat-chunks.ts';
import { openGeneration, type TokenMeter } from '../wire/chat-events.ts';
import { answerFormatOf, type AnswerFormat, checkChatRequest, toGenerateRequest } from '../wire/chat-request.ts';

/** POST /v1/chat/completions. */
export function chatCompletionRoutes(app: FastifyInstance, parts: RouteParts): void {
  app.post<{ Body: ChatCompletionRequest }>(
    '/v1/chat/completions',
    {
      config: { scope: 'inference' },
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
          const chat = await admit(request, parts);
          return metered(request, chat, parts, async (meter) => {
            const generation = await openGeneration(parts.inference, chat.generate, signal, meter);
            return collectAnswer(generation, chat.identity, chat.format, chat.generate.n);
          });
        });
      }
      if (request.headers['idempotency-key'] !== undefined)
        throw new RequestError('request.unsupported', 'An `Idempotency-Key` is not supported together with `stream`', {
          param: 'stream',
        });
      const chat = await admit(request, parts);
      await metered(request, chat, parts, (meter) => stream(reply, chat, parts, signal, meter));
      return reply;
    },
  );
}

/** A request that may run: its model is decided, its adapter is on disk. */
interface AdmittedChat {
  model: ResolvedModel;
  generate: ReturnType<typeof toGenerateRequest>;
  format: AnswerFormat;
  identity: AnswerIdentity;
}

async function admit(
  request: FastifyRequest<{ Body: ChatCompletionRequest }>,
  parts: RouteParts,
): Promise<AdmittedChat> {
  const { body } = request;
  const caller = callerOf(request);
  const { id: baseModelId, contextLength, vocabSize } = parts.inference.baseModel;
  const model = await resolveModelName(parts.store, { requested: body.model, entity: caller.entity, baseModelId });
  const adapter = await findAdapter(parts.blobs, model);
  if (adapter === 'missing')
    throw new RequestError('request.unknown_model', `The model \`${body.model}\` was deleted`, { param: 'model' });
  const format = answerFormatOf(body, model);
  // The namespace of the prefix cache is the tenant's: nobody can measure what another tenant has asked.
  const generate = toGenerateRequest(body, { tenant: caller.entityId, adapter, format, contextLength, vocabSize });
  const requestId = request.headers['x-request-id'] === undefined ? (body.request_id ?? request.id) : request.id;
  const identity = {
    id: `chatcmpl-${requestId}`,
    created: Math.floor(parts.clock() / 1000),
    model: model.name,
    fingerprint: fingerprintOf(model),
  };
  return { model, generate, format, identity };
}

/** The first output is awaited before a byte is sent, so that every refusal has its own HTTP status. */
async function stream(
  reply: FastifyReply,
  chat: AdmittedChat,
  parts: RouteParts,
  signal: AbortSignal,
  meter: TokenMeter,
): Promise<void> {
  const generation = await openGeneration(parts.inference, chat.generate, signal, meter);
  await sendEventStream(reply, toChunks(generation, chat.identity, chat.format, chat.generate.n), {
    signal,
    toErrorEvent: (error) => {
      const answer = toErrorAnswer(error);
      if (answer.isInternal) parts.log(`request ${reply.request.id} failed in its stream: ${describe(error)}`);
      return { error: answer.body.error };
    },
  });
}

/** Records the tokens of a request however it ends: computed is computed. */
async function metered<Result>(
  request: FastifyRequest,
  chat: AdmittedChat,
  parts: RouteParts,
  run: (meter: TokenMeter) => Promise<Result>,
): Promise<Result> {
  const meter: TokenMeter = { promptTokens: 0, completionTokens: 0 };
  try {
    return await run(meter);
  } finally {
    const { keyId, entityId } = callerOf(request);
    if (meter.promptTokens > 0)
      parts.store.recordUsage({
        keyId,
        entityId,
        project: projectOf(request),
        model: chat.model.name,
        kind: 'chat',
        ...meter,
      });
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
