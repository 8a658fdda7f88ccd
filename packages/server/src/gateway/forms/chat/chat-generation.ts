import type { FastifyRequest } from 'fastify';
import type { ChatCompletionRequest } from '@trainyard/protocol';

import type { ChoiceRecorder } from '../../../training-data/choice-records/choice-recorder.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { type OpenedGeneration, openGeneration, type TokenMeter } from '../../../seams/streams/chat-events.ts';
import { type AnswerFormat, answerFormatOf, toChatGenerateRequest } from './request.ts';
import { constraintField } from './tool-request.ts';
import { admitModel, type AdmittedModel, metered, newRecorder } from '../generation/generation.ts';

/** Shared by all routes that answer a conversation, in any form. */

/** A conversation with a resolved model, ready for the engine. */
export interface AdmittedChat extends AdmittedModel {
  format: AnswerFormat;
  generate: ReturnType<typeof toChatGenerateRequest>;
  recorder: ChoiceRecorder | null;
  constraintField: string;
  scoresField: string;
}

/**
 * @param body passed `checkChatRequest`
 * @param options.idPrefix of the answer's id, such as `chatcmpl-`
 * @param options.stopsInReasoning false: the form's stop strings apply only to the answer. Default true, as
 * in vLLM's chats.
 */
export async function admitChat(
  request: FastifyRequest,
  body: ChatCompletionRequest,
  parts: RouteParts,
  { idPrefix, stopsInReasoning = true }: { idPrefix: string; stopsInReasoning?: boolean },
): Promise<AdmittedChat> {
  const admitted = await admitModel(request, body, idPrefix, parts);
  const format = answerFormatOf(body, admitted.model, parts);
  const generate = { ...toChatGenerateRequest(body, admitted.context, format), stopsInReasoning };
  const recorder = format.isRecorded ? newRecorder(request, admitted.model, parts, admitted.ownId) : null;
  const scoresField = (body.prompt_logprobs ?? null) === null ? 'echo' : 'prompt_logprobs';
  return { ...admitted, format, generate, recorder, constraintField: constraintField(body), scoresField };
}

/** Starts the generation and waits for its first output. */
export function openChat(chat: AdmittedChat, signal: AbortSignal, meter: TokenMeter): Promise<OpenedGeneration> {
  return openGeneration(chat.inference, chat.generate, meter, {
    signal,
    withPromptText: chat.format.hasPromptText,
    constraintField: chat.constraintField,
    scoresField: chat.scoresField,
    recorder: chat.recorder,
    faultOf: chat.faultOf,
    isWhole: chat.isWhole,
    newHold: chat.newHold,
  });
}

/** Runs with a meter, and records its tokens at any end. */
export function meteredChat<Result>(
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
