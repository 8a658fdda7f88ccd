import type { Prompt } from '../contract/generate-request.ts';

/**
 * Prompts above this weight are made on another thread, if possible: this many characters take about 15 ms,
 * and a step takes 20 to 150.
 */
export const LONG_PROMPT_CHARACTERS = 32_768;
/** Time of a message in characters: 0.1 ms in the template of the default model. */
const MESSAGE_CHARACTERS = 256;
/** Characters written around each object, list or number. */
const VALUE_CHARACTERS = 8;

/** True if the prompt would block the stepping thread for too long. */
export function isLongPrompt(prompt: Prompt): boolean {
  return promptWeight(prompt, LONG_PROMPT_CHARACTERS) > LONG_PROMPT_CHARACTERS;
}

/**
 * Estimates the time to render and encode a prompt from its parts, in characters of plain text: 10,000
 * messages of two letters take as long as a text of 2 MB.
 * @param atMost counting stops above it
 */
export function promptWeight(prompt: Prompt, atMost: number): number {
  switch (prompt.kind) {
    case 'tokens':
      return 0;
    case 'text':
      return prompt.text.length;
    case 'chat': {
      const { messages, tools, templateVariables } = prompt;
      const texts = [prompt.toolsText, prompt.templateVariablesText, prompt.chatTemplate];
      const fixed = texts.reduce((sum, text) => sum + (text?.length ?? 0), MESSAGE_CHARACTERS * messages.length);
      return fixed + weightOf([messages, tools, templateVariables], atMost - fixed);
    }
    default:
      return prompt satisfies never;
  }
}

/** Without recursion, because clients control the depth of values. */
function weightOf(roots: readonly unknown[], atMost: number): number {
  let weight = 0;
  const left = [...roots];
  while (left.length > 0 && weight <= atMost) {
    const value = left.pop();
    if (typeof value === 'string') {
      weight += value.length;
      continue;
    }
    weight += VALUE_CHARACTERS;
    if (value === null || typeof value !== 'object') continue;
    // Stops early within a list of millions.
    const entries = value instanceof Map ? value : Array.isArray(value) ? value.entries() : fieldsOf(value);
    for (const [key, inner] of entries) {
      if (weight > atMost) return weight;
      weight += typeof key === 'string' ? key.length : VALUE_CHARACTERS;
      left.push(inner);
    }
  }
  return weight;
}

function* fieldsOf(value: object): Generator<[string, unknown]> {
  for (const key in value) if (Object.hasOwn(value, key)) yield [key, (value as Record<string, unknown>)[key]];
}
