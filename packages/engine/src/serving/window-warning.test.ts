import { expect, it } from 'vitest';
import { windowWarning } from './window-warning.ts';

const warningOf = (
  metadata: Record<string, string | number>,
  contextLength = 32_768,
  runner: 'graphs' | 'llama' = 'llama',
) => windowWarning({ metadata: new Map(Object.entries(metadata)) }, contextLength, runner);
const LLAMA = { 'general.architecture': 'llama' };

it('warns of a window that is not applied and smaller than the context, with both', () => {
  const windowed = { ...LLAMA, 'llama.attention.sliding_window': 4096 };
  expect(warningOf(windowed)).toContain('sliding window of 4096 tokens (the file sets llama.attention.sliding_window)');
  expect(warningOf(windowed, 4096)).toBeNull();
  expect(warningOf({ ...LLAMA, 'llama.attention.sliding_window': 0 })).toBeNull();
  expect(warningOf(LLAMA)).toBeNull();
  expect(warningOf(windowed, 32_768, 'graphs')).toBeNull();
});

it('knows the first Mistral by its name, whose window converters leave out', () => {
  for (const name of ['Mistral 7B Instruct v0.1', 'mistralai_Mistral-7B-v0.1'])
    expect(warningOf({ ...LLAMA, 'general.name': name })).toContain('the file omits');
  expect(warningOf({ ...LLAMA, 'general.name': 'Mistral 7B Instruct v0.3' })).toBeNull();
});

it('gives no warning if the sampler applies the window', () => {
  expect(warningOf({ 'general.architecture': 'gemma3', 'gemma3.attention.sliding_window': 1024 })).toBeNull();
});
