import type { ChatMessage } from '@trainyard/protocol';

/** The text of a message; of one in parts their texts, a line each. */
export function messageText({ content }: ChatMessage): string {
  if (typeof content === 'string') return content;
  return (content ?? [])
    .map(partText)
    .filter((text) => text !== null)
    .join('\n');
}

function partText(part: string | Record<string, unknown>): string | null {
  if (typeof part === 'string') return part;
  // `text` for most kinds, and the kind's own name for `refusal` and `thinking`.
  const text = part['text'] ?? part[String(part['type'])];
  return typeof text === 'string' ? text : null;
}
