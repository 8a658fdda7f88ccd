import type { FastifyInstance } from 'fastify';
import {
  type GenerateTokensRequest,
  GenerateTokensRequestSchema,
  normalizeGenerateTokensRequest,
} from '@trainyard/protocol';

import { answerOnce } from '../../answers/idempotency.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { abortOnDisconnect } from '../../answers/sse.ts';
import { type OpenedGeneration, openGeneration } from '../../../seams/streams/chat-events.ts';
import { readPrompts } from '../completions/prompts.ts';
import { outputConstraint } from '../shared/output-constraint.ts';
import { isRecordable, streamFormatOf } from '../shared/sampling-request.ts';
import { collectTokens, type TokenFormat, toTokenChunks } from './answer.ts';
import { requestedTokens, toCompletion, TOKEN_GENERATION_NAMES, toTokenGeneration } from './request.ts';
import { admitModel, metered, newRecorder, refuseStreamedIdempotency, sendOpened } from '../generation/generation.ts';
import { normalizedBody } from '../generation/normalized-body.ts';

/** POST /inference/v1/generate: token ids in, token ids out. */
export function tokenGenerationRoutes(app: FastifyInstance, parts: RouteParts): void {
  app.post<{ Body: GenerateTokensRequest }>(
    '/inference/v1/generate',
    {
      config: {
        scope: 'inference',
        samples: true,
        genAiOperation: 'text_completion',
        fieldNames: TOKEN_GENERATION_NAMES,
      },
      bodyLimit: parts.limits.chatBodyBytes,
      schema: { body: GenerateTokensRequestSchema },
      preValidation: normalizedBody(normalizeGenerateTokensRequest),
    },
    async (request, reply) => {
      const signal = abortOnDisconnect(reply);
      const body = toCompletion(request.body);
      const format: Omit<TokenFormat, 'requestId'> = {
        hasLogprobs: typeof body.logprobs === 'number',
        numChoices: body.n ?? 1,
        stream: streamFormatOf(body),
      };
      const generating = async <Result>(
        run: (opening: Promise<OpenedGeneration>, format: TokenFormat) => Promise<Result>,
      ): Promise<Result> => {
        const { model, inference, context, identity, faultOf, isWhole, newHold } = await admitModel(
          request,
          body,
          '',
          parts,
        );
        const maxTokens = requestedTokens(body)?.value ?? 1;
        const [prompt] = await readPrompts(body, maxTokens, { model, inference }, signal);
        if (prompt === undefined) throw new Error('there is one prompt');
        const isRecorded = model.kind === 'checkpoint' && parts.keepsChoiceRecords && isRecordable(body);
        const generate = toTokenGeneration(body, prompt, context, isRecorded);
        return metered(request, { kind: 'completion', model, numPrompts: 1 }, parts, async ([meter]) => {
          if (meter === undefined) throw new Error('the prompt has a meter');
          const recorder = isRecorded ? newRecorder(request, model, parts) : null;
          const constraintField = outputConstraint(body)?.field;
          const options = { signal, constraintField, recorder, faultOf, isWhole, newHold };
          const opening = openGeneration(inference, generate, meter, options);
          return run(opening, { ...format, requestId: identity.id });
        });
      };
      if (!body.stream)
        return answerOnce(parts.store, request, reply, () =>
          generating(async (opening, whole) => collectTokens(await opening, whole)),
        );
      refuseStreamedIdempotency(request);
      await generating((opening, whole) =>
        sendOpened(reply, { opening, toChunks: (generation) => toTokenChunks(generation, whole) }, parts, { signal }),
      );
      return reply;
    },
  );
}
