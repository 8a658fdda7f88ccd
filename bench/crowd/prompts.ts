/**
 * A prompt of that many bytes without a common prefix with other numbers' prompts.
 * @param words of the prompt, in an order derived from its number
 */
export function longPrompt(index: number, numBytes: number, words: readonly string[]): string {
  let state = index >>> 0;
  let text = `Log ${index}.`;
  while (text.length < numBytes) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    text += ` ${words[(state >>> 8) % words.length]!}`;
  }
  return text.slice(0, numBytes);
}

export const WORDS = [
  'international',
  'understanding',
  'responsibility',
  'environmental',
  'transportation',
  'communication',
  'representatives',
  'administration',
];
