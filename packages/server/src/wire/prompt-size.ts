import type { ChatMessage } from '@trainyard/protocol';

import { BackendFailure } from '../http-faults.ts';
import { messageText } from './message-text.ts';

/** More than any token of a vocabulary has. */
const MAX_CHARACTERS_PER_TOKEN = 256;

/**
 * Refuses a conversation that fits into no context before it travels to the engine, whose steps it would hold up on the way.
 *
 * @throws {BackendFailure} `engine.context_too_long`
 */
export function checkPromptSize(messages: readonly ChatMessage[], contextLength: number): void {
  const limit = contextLength * MAX_CHARACTERS_PER_TOKEN;
  const refuse = (what: string): never => {
    throw new BackendFailure(
      'engine.context_too_long',
      `the context holds ${contextLength} tokens; ${what}`,
      'messages',
    );
  };
  if (messages.length > contextLength)
    refuse(`at most as many messages can fit, a token each, and there are ${messages.length}`);
  let numCharacters = 0;
  for (const message of messages) numCharacters += messageText(message).length;
  if (numCharacters > limit) refuse(`at most ${limit} characters can fit, and the messages have ${numCharacters}`);
}
