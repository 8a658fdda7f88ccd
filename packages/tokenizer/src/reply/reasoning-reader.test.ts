import { expect, test } from 'vitest';
import { CHATML, THINKING } from '../testing/test-templates.ts';
import { detectReasoning } from './reasoning-reader.ts';

const INSIDE = { startsInside: true, isDisabled: false };
const CLOSED = { startsInside: false, isDisabled: true };
const OPEN = { startsInside: false, isDisabled: false };

test.each([
  ['nothing yet', OPEN, '<|im_start|>assistant\n'],
  ['opened', INSIDE, '<|im_start|>assistant\n<think>\n'],
  ['closed at once', CLOSED, '<|im_start|>assistant\n<think>\n\n</think>\n\n'],
  ['a final message that is still thinking', INSIDE, '<|im_start|>assistant\n<think>\nso 1 < 2 and'],
  ['a final message that has thought', CLOSED, '<|im_start|>assistant\n<think>a</think>The'],
  ['a user who writes the tag', OPEN, '<|im_start|>user\nwhat is <think>?<|im_end|>\n<|im_start|>assistant\n'],
  ['a user who closes it', OPEN, 'x</think>[/INST]'],
  ['an earlier turn', OPEN, '<think>a</think>b<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n'],
  [
    'an earlier turn, in other marks',
    OPEN,
    '<｜Assistant｜><think>a</think>b<｜end▁of▁sentence｜><｜User｜>c<｜Assistant｜>',
  ],
  ['no prompt', OPEN, ''],
])('%s', (_, expected, tail) => {
  expect(detectReasoning(THINKING, tail)).toEqual(expected);
});

test('a template without think blocks has no reasoning, regardless of the prompt', () => {
  expect(detectReasoning(CHATML, '<think>')).toBeNull();
  expect(detectReasoning("{{ content.split('</think>')[-1] }}", '<think>\n')).toEqual(INSIDE);
});
