import { toolTask } from '../tool-task.ts';

/** Operators of the tool, with their names in questions. */
const OPERATIONS = {
  '+': { words: 'plus', of: (a: number, b: number) => a + b },
  '-': { words: 'minus', of: (a: number, b: number) => a - b },
  '*': { words: 'times', of: (a: number, b: number) => a * b },
} as const;
type Operator = keyof typeof OPERATIONS;
type Sum = readonly [a: number, operator: Operator, b: number];

const QUESTIONS: readonly Sum[] = [
  [417, '*', 23],
  [5_208, '+', 3_977],
  [9_131, '-', 4_476],
  [86, '*', 112],
  [7_345, '+', 868],
  [604, '-', 387],
  [39, '*', 571],
  [2_716, '-', 1_929],
];
const EXAMPLES: readonly Sum[] = [
  [318, '*', 47],
  [1_250, '+', 4_691],
];

/**
 * The tool: evaluates two whole numbers with an operator between them.
 * @returns null for other input
 */
function calculate(expression: string): number | null {
  const [, a, operator, b] = /^\s*(\d{1,9})\s*([-+*])\s*(\d{1,9})\s*$/.exec(expression) ?? [];
  return operator === undefined ? null : OPERATIONS[operator as Operator].of(Number(a), Number(b));
}

function question([a, operator, b]: Sum) {
  const { words, of } = OPERATIONS[operator];
  const result = String(of(a, b));
  return {
    text: `What is ${a} ${words} ${b}?`,
    rightCall: `{"expression": "${a} ${operator} ${b}"}`,
    result,
    reply: `${a} ${words} ${b} is ${result}.`,
  };
}

function expressionOf(callArguments: string): string {
  try {
    const { expression } = JSON.parse(callArguments) as { expression?: unknown };
    return typeof expression === 'string' ? expression : '';
  } catch {
    return '';
  }
}

/**
 * Sums that no model of this size can do itself. A call is right if its expression has the right value, in
 * any spelling.
 */
export const calculator = toolTask({
  name: 'calculator',
  summary: 'call a calculator with the right expression, then answer with its result',
  tool: {
    type: 'function',
    function: {
      name: 'calculate',
      parameters: { type: 'object', properties: { expression: { type: 'string' } }, required: ['expression'] },
    },
  },
  examples: EXAMPLES.map(question),
  questions: QUESTIONS.map(question),
  settings: {},
  isAsGood: (callArguments, { result }) => String(calculate(expressionOf(callArguments))) === result,
});
