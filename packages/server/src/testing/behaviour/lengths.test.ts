/** Reference §1.2, the length budget, and truncation (§1.3). */
import { afterAll, beforeAll, describe, expect } from 'vitest';

import { test } from '../behaviour-test.ts';
import { ScriptedService } from '../scripted-service.ts';

const CONTEXT = 100;
let service: ScriptedService;
let numPrompt: number;
beforeAll(async () => {
  service = await ScriptedService.open({ contextLength: CONTEXT });
  service.prefer({ x: 0 });
  numPrompt = (await service.answer({ max_tokens: 1 })).usage.prompt_tokens;
});
afterAll(() => service.close());

/** A conversation of that many tokens in all. */
const ofLength = (numTokens: number) => ({
  messages: [{ role: 'user', content: 'h'.repeat(numTokens - numPrompt + 'hello'.length) }],
});
const lengths = async (fields: Record<string, unknown>) => {
  const { usage, choices } = await service.answer(fields);
  return [usage.prompt_tokens, usage.completion_tokens, choices[0]!.finish_reason];
};

describe('the reply is as long', () => {
  test('as the rest of the context, when nothing is asked for', async () => {
    expect(await lengths({})).toEqual([numPrompt, CONTEXT - numPrompt, 'length']);
  });
  test('as asked for, max_completion_tokens before max_tokens', async () => {
    expect(await lengths({ max_tokens: 3 })).toEqual([numPrompt, 3, 'length']);
    expect(await lengths({ max_tokens: 3, max_completion_tokens: 5 })).toEqual([numPrompt, 5, 'length']);
    expect(await lengths({ max_tokens: 3, max_completion_tokens: null })).toEqual([numPrompt, 3, 'length']);
  });
  test('as fits, when more is asked for', async () => {
    expect(await lengths({ max_tokens: CONTEXT })).toEqual([numPrompt, CONTEXT - numPrompt, 'length']);
    expect(await lengths({ ...ofLength(CONTEXT - 1), max_tokens: 50 })).toEqual([CONTEXT - 1, 1, 'length']);
  });
});

describe('refused', () => {
  test('more tokens than the context holds, less than one, and a minimum above the maximum', async () => {
    expect(await service.refusal({ max_tokens: CONTEXT + 1 })).toBe('400 max_tokens');
    expect(await service.refusal({ max_completion_tokens: CONTEXT + 1 })).toBe('400 max_completion_tokens');
    expect(await service.refusal({ max_tokens: 0 })).toBe('400 max_tokens');
    expect(await service.refusal({ max_completion_tokens: -1 })).toBe('400 max_completion_tokens');
    expect(await service.refusal({ max_tokens: 3, min_tokens: 4 })).toBe('400 min_tokens');
  });
  test('a prompt that leaves no room, with limit and value, also as a stream', async () => {
    const full = ofLength(CONTEXT);
    expect(await service.refusal(full)).toBe('400 input_tokens');
    expect(await service.refusal({ ...full, stream: true })).toBe('400 input_tokens');
    expect(await service.message(full)).toBe(
      `This model's maximum context length is ${CONTEXT} tokens. However, your prompt contains ${CONTEXT} input tokens, which leaves no room for a reply: shorten it to at most ${CONTEXT - 1} (context_length_exceeded)`,
    );
  });
  test('a minimum above the rest of the context, with or without a maximum', async () => {
    const rest = CONTEXT - numPrompt;
    expect(await service.refusal({ min_tokens: rest + 1 })).toBe('400 min_tokens');
    expect(await service.refusal({ min_tokens: rest + 1, max_tokens: CONTEXT, stream: true })).toBe('400 min_tokens');
    expect(await service.message({ min_tokens: 2 ** 31 })).toBe(
      `min_tokens must be at most ${rest}, the rest of the context after a prompt of ${numPrompt} tokens, got ${2 ** 31}`,
    );
    expect(await lengths({ min_tokens: rest })).toEqual([numPrompt, rest, 'length']);
  });
  test('no prompt at all', async () => {
    expect(await service.refusal({ truncate_prompt_tokens: 0 })).toBe('400 truncate_prompt_tokens');
    expect(await service.message({ truncate_prompt_tokens: 0 })).toBe(
      `truncate_prompt_tokens must be -1 or in [1, ${CONTEXT}] (the context), got 0`,
    );
  });
});

describe('truncate_prompt_tokens', () => {
  const kept = async (fields: Record<string, unknown>) => service.prompt(fields);
  test('keeps the end of the rendered prompt, through its markup', async () => {
    expect(await kept({ truncate_prompt_tokens: 5 })).toBe('tant\n');
    expect(await kept({ truncate_prompt_tokens: 12 })).toBe('\n<|im_start|>assistant\n');
  });
  test('or its beginning', async () => {
    expect(await kept({ truncate_prompt_tokens: 3, truncation_side: 'right' })).toBe('<|im_start|>us');
  });
  test('-1 leaves the requested number of tokens free, or one token', async () => {
    const long = ofLength(2 * CONTEXT);
    expect(await lengths({ ...long, truncate_prompt_tokens: -1 })).toEqual([CONTEXT - 1, 1, 'length']);
    expect(await lengths({ ...long, truncate_prompt_tokens: -1, max_tokens: 30 })).toEqual([70, 30, 'length']);
  });
  test('below -1, or above the context, is refused', async () => {
    expect(await service.refusal({ truncate_prompt_tokens: -2 })).toBe('400 truncate_prompt_tokens');
    expect(await service.refusal({ truncate_prompt_tokens: CONTEXT + 1 })).toBe('400 truncate_prompt_tokens');
  });
});
