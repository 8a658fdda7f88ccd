import { membersOf } from './python-values.ts';
import { TokenizerError } from './tokenizer-error.ts';

/** Minimum characters per message: its role and the text around it. */
const CHARACTERS_PER_MESSAGE = 64;

/**
 * Refuses a conversation that cannot fit into the context before it is processed: rendering costs time per
 * message.
 *
 * @param limit characters over all strings
 * @throws {TokenizerError} `tokenizer.text_too_long`
 */
export function checkInputSize(messages: readonly unknown[], tools: unknown, limit: number): void {
  const size = messages.length * CHARACTERS_PER_MESSAGE + characters(messages, limit) + characters(tools, limit);
  if (size <= limit) return;
  throw new TokenizerError(
    'tokenizer.text_too_long',
    `the conversation of ${messages.length} messages exceeds this by far: at most ${limit} characters can fit, and each message counts ${CHARACTERS_PER_MESSAGE} in addition to its text`,
  );
}

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
