import type { TokenizeInput } from '@trainyard/engine';
import type { TokenizeRequest } from '@trainyard/protocol';

import type { ResolvedModel } from '../model-names.ts';
import { checkTemplateInput, conflict, notSupported } from './chat-request.ts';

/** Fields that mean nothing without a template. */
const CHAT_FIELDS = ['tools', 'chat_template_kwargs', 'add_generation_prompt', 'chat_template'] as const;

/**
 * What is to be tokenised, as the engine takes it.
 *
 * @throws {RequestError} `request.conflict`, `request.unsupported`, `request.invalid`
 */
export function toTokenizeInput(body: TokenizeRequest, model: ResolvedModel): TokenizeInput {
  const { prompt, messages } = body;
  if ((prompt === undefined) === (messages === undefined))
    throw conflict(prompt === undefined ? 'prompt' : 'messages', 'Send exactly one of `prompt` and `messages`');
  if (prompt !== undefined) {
    for (const field of CHAT_FIELDS) {
      if (body[field] !== undefined && body[field] !== null)
        throw conflict(field, `\`${field}\` is only allowed with \`messages\``);
    }
    return { kind: 'text', text: prompt, addSpecialTokens: body.add_special_tokens ?? true };
  }
  const chat = { ...body, messages: messages ?? [] };
  if (body.continue_final_message) throw notSupported('continue_final_message');
  if (body.chat_template !== undefined && body.chat_template !== null) throw notSupported('chat_template');
  checkTemplateInput(chat);
  return {
    kind: 'chat',
    messages: chat.messages,
    tools: body.tools ?? null,
    templateVariables: body.chat_template_kwargs ?? {},
    rendersAsTraining: model.kind === 'checkpoint',
    addGenerationPrompt: body.add_generation_prompt ?? true,
    addSpecialTokens: body.add_special_tokens ?? false,
  };
}
