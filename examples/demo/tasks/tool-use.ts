import { toolTask } from '../tool-task.ts';

/** Invented, so that no model knows them: the number must come from the tool. */
const POPULATIONS: readonly (readonly [city: string, population: number])[] = [
  ['Rome', 2755309],
  ['Kyoto', 1463723],
  ['Quito', 1763275],
  ['Turin', 841600],
  ['Dakar', 1438725],
  ['Perth', 2309338],
  ['Leeds', 536280],
  ['Hanoi', 8435650],
];
const EXAMPLES = [
  ['Oslo', 709037],
  ['Lima', 10092000],
] as const;

const question = ([city, population]: readonly [string, number]) => ({
  text: `How many people live in ${city}?`,
  rightCall: `{"city": "${city}"}`,
  result: String(population),
  reply: `${population} people live in ${city}.`,
});

export const toolUse = toolTask({
  name: 'tool-use',
  summary: 'call a tool with the right argument, then answer with its result',
  tool: {
    type: 'function',
    function: {
      name: 'population',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
  examples: EXAMPLES.map(question),
  questions: POPULATIONS.map(question),
  settings: {},
});
