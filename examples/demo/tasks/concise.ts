import { singleTurn } from '../task.ts';

const QUESTIONS: readonly { question: string; answers: readonly string[] }[] = [
  { question: 'What is the capital of France?', answers: ['paris'] },
  { question: 'What color is the sky on a clear day?', answers: ['blue'] },
  { question: 'How many legs does a spider have?', answers: ['8', 'eight'] },
  { question: 'What is the opposite of hot?', answers: ['cold'] },
  { question: 'Which planet do we live on?', answers: ['earth'] },
  { question: 'What do bees make?', answers: ['honey'] },
  { question: 'How many days are in a week?', answers: ['7', 'seven'] },
  { question: 'What is frozen water called?', answers: ['ice'] },
];

/** Other questions with right but long answers, for lessons by example: rewards have the brevity left to teach. */
export const CONCISE_LESSONS = [
  {
    prompt: 'What is the capital of Italy?',
    reply: 'The capital of Italy is Rome, an old city on the river Tiber with almost three million inhabitants.',
  },
  {
    prompt: 'What color is fresh grass?',
    reply: 'Fresh grass is green, because its leaves are full of a substance that absorbs most of the other colors.',
  },
  {
    prompt: 'How many legs does a dog have?',
    reply: 'A dog has four legs, two at the front and two at the back, and it uses all of them to run.',
  },
  {
    prompt: 'What is the opposite of big?',
    reply: 'The opposite of big is small, a word that is used for things which need only a little room.',
  },
  {
    prompt: 'Which star gives us light by day?',
    reply: 'The star that gives us light by day is the sun, which is much closer to us than all other stars.',
  },
  {
    prompt: 'What do cows give?',
    reply: 'Cows give milk, which people drink or use to make other food such as butter, cheese and yogurt.',
  },
  {
    prompt: 'How many months are in a year?',
    reply: 'There are twelve months in a year, and most of them have thirty or thirty-one days, but not all.',
  },
  {
    prompt: 'What falls from dark clouds?',
    reply: 'Rain falls from dark clouds, and when the air is very cold there may be snow or hail instead of it.',
  },
] as const;

/** Answers of this many words or fewer get the full brevity score … */
const SHORT_WORDS = 4;
/** … which falls to 0 over this many more. */
const FADE_WORDS = 28;
/**
 * Reward factor of a short but wrong answer: brevity by itself is learned first, so the reward helps from the
 * first step.
 */
const WRONG_ANSWER_FACTOR = 0.25;

/** A shaped reward: fewer words and more right answers raise it, so almost every group has a signal. */
export const concise = singleTurn({
  name: 'concise',
  summary: 'answer right, in a few words',
  prompts: QUESTIONS.map(({ question }) => question),
  maxTokens: 40,
  settings: {},
  reward(promptIndex, answer) {
    const text = answer.toLowerCase();
    const isRight = QUESTIONS[promptIndex]!.answers.some((word) => new RegExp(`\\b${word}\\b`).test(text));
    const numWords = text.split(/\s+/).filter((word) => word !== '').length;
    const brevity = Math.min(1, Math.max(0, 1 - (numWords - SHORT_WORDS) / FADE_WORDS));
    return (isRight ? 1 : WRONG_ANSWER_FACTOR) * brevity;
  },
});
