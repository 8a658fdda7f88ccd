import { isExhausted } from '../contract/template-exhausted.ts';
import type { ContentFormat } from '../contract/template-message.ts';

/** Only letters, so that escaping or capitalisation at a sentence start does not change it. */
const MARK = 'qzqmark';
const CONTENTS: readonly (readonly [ContentFormat, unknown])[] = [
  ['string', MARK],
  ['parts', [{ type: 'text', text: MARK }]],
];
const TOOL = {
  type: 'function',
  function: { name: 'probe', description: 'probe', parameters: { type: 'object', properties: {}, required: [] } },
};
const DOCUMENT = { title: 'probe', text: 'probe', contents: 'probe', doc_id: 1 };

/**
 * Finds the content format by rendering: string if one comes out complete, else parts. Some templates need a
 * system message, tools or documents; one that refuses every conversation gets strings.
 *
 * @throws if `run` took too many steps
 * @param run throws if the template refuses the variables
 */
export function probeContentFormat(run: (variables: Readonly<Record<string, unknown>>) => string): ContentFormat {
  for (const extra of [
    { tools: null, documents: null },
    { tools: [TOOL], documents: [DOCUMENT] },
  ]) {
    for (const [format, content] of CONTENTS) {
      if (conversationsWith(content).some((messages) => isTaken(run, messages, extra))) return format;
    }
  }
  return 'string';
}

function conversationsWith(content: unknown): unknown[][] {
  const user = { role: 'user', content };
  return [[user], [{ role: 'system', content }, user]];
}

function isTaken(
  run: (variables: Readonly<Record<string, unknown>>) => string,
  messages: readonly unknown[],
  extra: object,
): boolean {
  try {
    return run({ messages, ...extra, add_generation_prompt: true, bos_token: '', eos_token: '' }).includes(MARK);
  } catch (error) {
    if (isExhausted(error)) throw error;
    return false;
  }
}
