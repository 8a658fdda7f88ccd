import type { ChatMessage } from '@trainyard/protocol';

import { BackendFailure } from '../../../seams/faults/backend-failure.ts';
import { messageText } from './message-text.ts';

/** More than any token of a vocabulary has. */
const MAX_CHARACTERS_PER_TOKEN = 256;

/**
 * Refuses a conversation that fits into no context before it is sent to the engine, whose steps it would
 * delay.
 * @throws {BackendFailure} `context_length_exceeded`
 */
export function checkPromptSize(messages: readonly ChatMessage[], contextLength: number): void {
  const limit = contextLength * MAX_CHARACTERS_PER_TOKEN;
  const refuse = (what: string): never => {
    throw new BackendFailure('context_length_exceeded', what, 'messages');
  };
  if (messages.length > contextLength)
    refuse(
      `your prompt contains ${messages.length} messages, but at most ${contextLength} can fit, with one token each`,
    );
  let numCharacters = 0;
  for (const message of messages) numCharacters += messageText(message).length;
  if (numCharacters > limit) refuse(`your prompt contains ${numCharacters} characters, but at most ${limit} can fit`);
}
