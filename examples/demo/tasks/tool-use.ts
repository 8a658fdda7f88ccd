import type { ChatBody, ChatCompletionChoice, GatheredGroup } from '@trainyard/sdk';

import { type DemoTask, ROLLOUTS_PER_PROMPT, type RolloutRequest } from '../task.ts';

const TOOLS = [
  {
    type: 'function' as const,
    function: {
      name: 'population',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
];
type Messages = ChatBody['messages'];

/** Made up, so that no model can know them: the number has to come from the tool. */
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
const MAX_TOKENS = 32;

const question = (city: string) => ({ role: 'user' as const, content: `How many people live in ${city}?` });
const call = (id: string, city: string) => ({
  role: 'assistant' as const,
  content: '',
  tool_calls: [
    { id, type: 'function' as const, function: { name: 'population', arguments: JSON.stringify({ city }) } },
  ],
});
const result = (id: string, population: number) => ({
  role: 'tool' as const,
  tool_call_id: id,
  content: String(population),
});
const example = (id: string, city: string, population: number): Messages => [
  question(city),
  call(id, city),
  result(id, population),
  { role: 'assistant', content: `${population} people live in ${city}.` },
];
/** Two conversations to imitate: without them a small model never calls anything, and there is nothing to reward. */
const EXAMPLES: Messages = [...example('call00001', 'Oslo', 709037), ...example('call00002', 'Lima', 10092000)];

/**
 * Two turns: call the tool with the right city (half of the reward), then answer with the number that it gave (the other half). The tool's
 * answer is not the model's: it is context, never trained.
 */
export const toolUse: DemoTask = {
  name: 'tool-use',
  summary: 'call a tool with the right argument, then answer with its result',
  numPrompts: POPULATIONS.length,
  settings: { learning_rate: 5e-4 },
  gather,
  sample: async (client, model) => {
    const [city] = POPULATIONS[0]!;
    const messages = [...EXAMPLES, question(city)];
    const answer = await client.chat.completions.create({
      model,
      messages,
      tools: TOOLS,
      max_tokens: MAX_TOKENS,
      temperature: 0,
    });
    const { content, tool_calls: calls } = answer.choices[0]!.message;
    return { prompt: question(city).content, reply: calls ? JSON.stringify(calls[0]?.function) : (content ?? '') };
  },
};

async function gather({ client, model, promptIndex, seed, onRollout }: RolloutRequest): Promise<GatheredGroup> {
  const [city, population] = POPULATIONS[promptIndex]!;
  const messages: Messages = [...EXAMPLES, question(city)];
  const request = { model, tools: TOOLS, max_tokens: MAX_TOKENS, temperature: 1 };
  let usage: GatheredGroup['usage'] | null = null;
  let numTokens = 0;
  const count = ({ completion_tokens: tokens }: GatheredGroup['usage']) => {
    numTokens += tokens;
    return tokens;
  };
  const trajectories = await Promise.all(
    Array.from({ length: ROLLOUTS_PER_PROMPT }, async (_, index) => {
      const first = await client.chat.completions.create({ ...request, messages, seed: seed + index });
      usage = first.usage;
      const numFirst = count(first.usage);
      const choice = first.choices[0]!;
      const calledId = rightCall(choice, city);
      if (calledId === null) {
        onRollout(numFirst);
        return { messages_and_choices: [...messages, { ...choice }], tools: TOOLS, reward: 0 };
      }
      const history = [...messages, { ...choice.message }, result(calledId, population)] as Messages;
      const second = await client.chat.completions.create({ ...request, messages: history, seed: seed + index });
      const answer = second.choices[0]!;
      onRollout(numFirst + count(second.usage));
      return {
        messages_and_choices: [...messages, { ...choice }, result(calledId, population), { ...answer }],
        tools: TOOLS,
        reward: answer.message.content?.includes(String(population)) === true ? 1 : 0.5,
      };
    }),
  );
  return { group: { trajectories } as GatheredGroup['group'], usage: { ...usage!, completion_tokens: numTokens } };
}

/** The id of the call, when it is one call of the tool with this city and nothing else. */
function rightCall(choice: ChatCompletionChoice, city: string): string | null {
  const [only, ...others] = choice.message.tool_calls ?? [];
  if (only === undefined || others.length > 0 || only.function.name !== 'population') return null;
  return only.function.arguments === `{"city": "${city}"}` ? only.id : null;
}
