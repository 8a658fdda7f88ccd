import type { TokenizeInput } from '@trainyard/generation';
import type { TokenizeRequest } from '@trainyard/protocol';

import { checkOpenEnd, checkTemplateInput, templateVariables } from './request.ts';
import { promptParts } from '../../../seams/chat/written-values.ts';
import { conflict } from '../shared/conflict.ts';

/** Fields that have no effect without a template. */
const CHAT_FIELDS = [
  'tools',
  'documents',
  'chat_template_kwargs',
  'reasoning_effort',
  'add_generation_prompt',
  'continue_final_message',
  'chat_template',
] as const;

/**
 * Converts a tokenize request to the engine's form.
 * @throws {RequestError} `request.conflict`, `request.unsupported`, `request.invalid`
 */
export function toTokenizeInput(body: TokenizeRequest): TokenizeInput {
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
  checkTemplateInput(chat);
  checkOpenEnd(chat);
  return {
    kind: 'chat',
    ...promptParts(chat, templateVariables(body)),
    addGenerationPrompt: body.add_generation_prompt ?? true,
    continueFinalMessage: body.continue_final_message ?? false,
    chatTemplate: body.chat_template ?? null,
    addSpecialTokens: body.add_special_tokens ?? false,
  };
}
