import type { ChatMessage } from '@trainyard/protocol';

/** Text of a message: that of its parts, one line each. */
export function messageText({ content }: ChatMessage): string {
  if (typeof content === 'string') return content;
  return (content ?? [])
    .map(partText)
    .filter((text) => text !== null)
    .join('\n');
}

function partText(part: string | Record<string, unknown>): string | null {
  if (typeof part === 'string') return part;
  // `text` for most kinds, and the kind's name for `refusal` and `thinking`.
  const text = part['text'] ?? part[String(part['type'])];
  return typeof text === 'string' ? text : null;
}
