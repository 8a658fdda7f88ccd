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
