import type { FastifyRequest } from 'fastify';
import type { ChatCompletionRequest } from '@trainyard/protocol';

import { checkChatRequest } from './request.ts';
import { toTokenizeInput } from './tokenize-request.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { requestedModel } from '../generation/requested-model.ts';

/**
 * Number of prompt tokens of a chat.
 * @throws {RequestError} as the chat would, except for a prompt longer than the context
 */
export async function countPrompt(
  request: FastifyRequest,
  body: ChatCompletionRequest,
  parts: RouteParts,
  signal: AbortSignal,
): Promise<number> {
  checkChatRequest(body);
  const model = await requestedModel(request, body.model, parts);
  const { messages, tools, documents, chat_template_kwargs: variables, reasoning_effort: effort } = body;
  const isOpen = body.continue_final_message ?? false;
  const input = toTokenizeInput({
    messages,
    ...(tools ? { tools } : {}),
    ...(documents ? { documents } : {}),
    ...(variables ? { chat_template_kwargs: variables } : {}),
    ...(effort ? { reasoning_effort: effort } : {}),
    add_generation_prompt: !isOpen,
    continue_final_message: isOpen,
  });
  const { tokenIds } = await parts.inference.of(model.base.id).tokenize(input, { withTexts: false, signal });
  return tokenIds.length;
}
