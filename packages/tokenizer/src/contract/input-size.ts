import { membersOf } from './python-values.ts';
import { TokenizerError } from './tokenizer-error.ts';

/** A message has a role, and templates write something around it: more messages than this allows fit into no context. */
const CHARACTERS_PER_MESSAGE = 64;

/**
 * Refuses a conversation that cannot fit into the context before anything is made of it: rendering costs time for each message.
 *
 * @param limit of characters, over all strings
 * @throws {TokenizerError} `tokenizer.text_too_long`
 */
export function checkInputSize(messages: readonly unknown[], tools: unknown, limit: number): void {
  const size = messages.length * CHARACTERS_PER_MESSAGE + characters(messages, limit) + characters(tools, limit);
  if (size <= limit) return;
  throw new TokenizerError(
    'tokenizer.text_too_long',
    `the conversation of ${messages.length} messages is far longer than that: at most ${limit} characters can fit, each message counting ${CHARACTERS_PER_MESSAGE} besides its text`,
  );
}

/** Characters of all strings in a value, as far as the limit: then some number above it. */
function characters(value: unknown, limit: number): number {
  let count = 0;
  const open: unknown[] = [value];
  while (open.length > 0 && count <= limit) {
    const next = open.pop();
    if (typeof next === 'string') count += next.length;
    else if (typeof next === 'object' && next !== null) for (const member of membersOf(next)) open.push(member);
  }
  return count;
}
