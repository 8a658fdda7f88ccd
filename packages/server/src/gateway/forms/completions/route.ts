import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type CompletionRequest, CompletionRequestSchema, normalizeCompletionRequest } from '@trainyard/protocol';

import { answerOnce } from '../../answers/idempotency.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { abortOnDisconnect } from '../../answers/sse.ts';
import { type OpenedGeneration, openGeneration } from '../../../seams/streams/chat-events.ts';
import { collectCompletion } from './answer.ts';
import { toCompletionChunks } from './chunks.ts';
import { readPrompts } from './prompts.ts';
import { checkCompletionRequest, completionFormatOf, maxTokensOf, toCompletionRequests } from './request.ts';
import { outputConstraint } from '../shared/output-constraint.ts';
import { admitModel, metered, newRecorder, refuseStreamedIdempotency, sendOpened } from '../generation/generation.ts';
import { normalizedBody } from '../generation/normalized-body.ts';

/** POST /v1/completions. */
export function completionRoutes(app: FastifyInstance, parts: RouteParts): void {
  app.post<{ Body: CompletionRequest }>(
    '/v1/completions',
    {
      config: { scope: 'inference', samples: true, genAiOperation: 'text_completion' },
      bodyLimit: parts.limits.chatBodyBytes,
      schema: { body: CompletionRequestSchema },
      preValidation: normalizedBody(normalizeCompletionRequest),
    },
    async (request, reply) => {
      const signal = abortOnDisconnect(reply);
      checkCompletionRequest(request.body);
      if (!request.body.stream) {
        return answerOnce(parts.store, request, reply, async () => {
          const completion = await admitCompletion(request, parts, signal);
          return generating(request, completion, { parts, signal }, (generations) =>
            collectCompletion(generations, completion.prompts, completion.identity, completion.format),
          );
        });
      }
      refuseStreamedIdempotency(request);
      const completion = await admitCompletion(request, parts, signal);
      await generating(request, completion, { parts, signal }, async (generations) => {
        const { prompts, identity, format } = completion;
        const toChunks = () => toCompletionChunks(generations, prompts, identity, format);
        // Waits for the first output of any prompt.
        await sendOpened(reply, { opening: Promise.race(generations), toChunks }, parts, { signal });
      });
      return reply;
    },
  );
}

async function admitCompletion(
  request: FastifyRequest<{ Body: CompletionRequest }>,
  parts: RouteParts,
  signal: AbortSignal,
) {
  const { body } = request;
  const admitted = await admitModel(request, body, 'cmpl-', parts);
  const prompts = await readPrompts(body, maxTokensOf(body), admitted, signal);
  const { model } = admitted;
  const format = completionFormatOf(body, model.kind === 'checkpoint' && parts.keepsChoiceRecords);
  return {
    ...admitted,
    prompts,
    format,
    generate: toCompletionRequests(body, prompts, admitted.context, format),
    newRecorder: () => (format.isRecorded ? newRecorder(request, model, parts) : null),
    options: {
      withPromptText: format.hasPromptText,
      constraintField: outputConstraint(body)?.field,
      scoresField: (body.prompt_logprobs ?? null) === null ? 'echo' : 'prompt_logprobs',
      faultOf: admitted.faultOf,
      isWhole: admitted.isWhole,
      newHold: admitted.newHold,
    },
  };
}

/** Starts one generation per prompt; all of them end with `run`. */
async function generating<Result>(
  request: FastifyRequest,
  completion: Awaited<ReturnType<typeof admitCompletion>>,
  { parts, signal }: { readonly parts: RouteParts; readonly signal: AbortSignal },
  run: (generations: readonly Promise<OpenedGeneration>[]) => Promise<Result>,
): Promise<Result> {
  const { model, inference, generate, newRecorder: recorder, options } = completion;
  return metered(request, { kind: 'completion', model, numPrompts: generate.length }, parts, async (meters) => {
    const ended = new AbortController();
    const either = AbortSignal.any([signal, ended.signal]);
    const generations = generate.map((one, index) => {
      const meter = meters[index];
      if (meter === undefined) throw new Error('every prompt has a meter');
      return openGeneration(inference, one, meter, { ...options, signal: either, recorder: recorder() });
    });
    // Only one failure is reported; the others follow from it.
    for (const generation of generations) generation.catch(() => undefined);
    try {
      return await run(generations);
    } finally {
      ended.abort(new DOMException('the request has ended', 'AbortError'));
      await Promise.allSettled(generations.map(async (generation) => (await generation).end()));
    }
  });
}
