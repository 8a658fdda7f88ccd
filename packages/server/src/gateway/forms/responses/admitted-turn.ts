import type { FastifyRequest } from 'fastify';
import type { ChatCompletionRequest, ResponsesRequest } from '@trainyard/protocol';

import { checkChatRequest } from '../chat/request.ts';
import type { ResponseFormat } from './answer.ts';
import { fromResponsesRequest } from './request.ts';
import { clientTools } from './tools.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { admitChat, type AdmittedChat } from '../chat/chat-generation.ts';
import { openTurn, type ResponseTurn } from './response-turn.ts';

/** A request of `/v1/responses`, ready for the engine. */
export interface AdmittedTurn {
  readonly turn: ResponseTurn;
  readonly chat: AdmittedChat;
}

/** Stop strings apply only to the answer. */
const FOR_ANSWERS = { idPrefix: 'resp_', stopsInReasoning: false };

/** @returns the turn, and its chat @throws {RequestError} as {@link openTurn}, and for unsupported fields */
export async function admitTurn(
  request: FastifyRequest,
  sent: ResponsesRequest,
  parts: RouteParts,
): Promise<AdmittedTurn & { readonly asked: ChatCompletionRequest }> {
  const turn = await openTurn(request, sent, parts);
  const body = fromResponsesRequest(turn.body);
  checkChatRequest(body);
  return { turn, chat: await admitChat(request, body, parts, FOR_ANSWERS), asked: body };
}

export function formatOf({ turn, chat }: AdmittedTurn, { clock }: RouteParts): ResponseFormat {
  const { body, facts } = turn;
  const { identity, format } = chat;
  return { identity, body, facts, toolOf: clientTools(body), hasLogprobs: format.hasLogprobs, clock };
}
