import { singleTurn } from '../task.ts';

const WORD_ORDERS = [
  ['yes', 'no', 'maybe'],
  ['maybe', 'yes', 'no'],
  ['no', 'maybe', 'yes'],
];

const PROMPTS = WORD_ORDERS.flatMap((words) => [
  `respond with ${words.map((word) => `'${word}'`).join(', ')}`,
  `just respond with ${words.join(', ')}`,
]);

/** Each prompt with each word, all three equally often: shows the allowed answers, but not the best one. */
export const YES_NO_MAYBE_LESSONS = WORD_ORDERS[0]!.flatMap((_, shift) =>
  PROMPTS.map((prompt, index) => ({ prompt, reply: WORD_ORDERS[0]![(index + shift) % 3]! })),
);

/**
 * ART's classic task. Sparse: at first almost no sample is one of the three words, so early steps may show
 * nothing.
 */
export const yesNoMaybe = singleTurn({
  name: 'yes-no-maybe',
  summary: 'say "maybe" (1), rather than "no" (0.75) or "yes" (0.5)',
  prompts: PROMPTS,
  maxTokens: 16,
  settings: {},
  reward(_promptIndex, answer) {
    const word = answer
      .trim()
      .toLowerCase()
      .replace(/[.'"!]/g, '');
    return word === 'maybe' ? 1 : word === 'no' ? 0.75 : word === 'yes' ? 0.5 : 0;
  },
});
