/** Somebody's words in a conversation. */
export interface SpokenTurn {
  readonly role: string;
  readonly text: string;
}

/**
 * The turns of a trajectory as it was sent: messages, and choices that hold one.
 *
 * @param content null when it was removed
 */
export function spokenTurns(content: Readonly<Record<string, unknown>> | null): SpokenTurn[] {
  const entries = content?.['messages_and_choices'];
  if (!Array.isArray(entries)) return [];
  return entries.flatMap((entry: unknown) => {
    const message = isRecord(entry) && isRecord(entry['message']) ? entry['message'] : entry;
    if (!isRecord(message)) return [];
    const text = [textOf(message['content']), ...callsOf(message['tool_calls'])].filter((part) => part !== '');
    return [{ role: typeof message['role'] === 'string' ? message['role'] : 'assistant', text: text.join('\n') }];
  });
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content
    .map((part: unknown) => (isRecord(part) && typeof part['text'] === 'string' ? part['text'] : ''))
    .join('');
}

function callsOf(calls: unknown): string[] {
  if (!Array.isArray(calls)) return [];
  return calls.flatMap((call: unknown) => {
    const called = isRecord(call) ? call['function'] : null;
    return isRecord(called) ? [`${String(called['name'])}(${String(called['arguments'])})`] : [];
  });
}
