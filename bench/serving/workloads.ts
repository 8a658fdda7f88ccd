import type OpenAI from 'openai';

import type { ServerUnderTest } from './server-under-test.ts';
import { streamAnswer, type ChatWork, type StreamedAnswer } from './streamed-answer.ts';

/** A typical use of a server, sized for a minute or two on a small machine. */
export interface Workload {
  readonly name: string;
  readonly how: string;
  /** Number of adapters that it needs. */
  readonly numAdapters: number;
  /** Its figure: completion tokens per second (default), or the time to the first token. */
  readonly figure?: 'first token';
  /** @param seed different in each round: no prompt is repeated */
  readonly run: (server: ServerUnderTest, seed: number) => Promise<StreamedAnswer[]>;
}

/** Names of the table that compares servers; the others run only if named, or with `--all`. */
export const CORE = [
  '1 sequence',
  'plain',
  'rollouts',
  'rollouts as requests',
  'multi-turn',
  'plain, adapter',
  'rollouts, adapter',
  'prompt of 100',
  'prompt of 500',
  'prompt of 1700',
];

type Messages = readonly OpenAI.ChatCompletionMessageParam[];

/** Sizes of the workloads. */
interface Sizes {
  /** Length of an answer, tokens. */
  readonly numTokens: number;
  readonly numChats: number;
  readonly numGroups: number;
  /** Rollouts per group. */
  readonly groupSize: number;
  /** Length of a group's prompt. */
  readonly promptTokens: number;
  readonly numConversations: number;
  readonly numTurns: number;
  readonly numAdapters: readonly number[];
  readonly numSequences: readonly number[];
  readonly promptLengths: readonly number[];
  readonly numInFlight: number;
}

export const FULL: Sizes = {
  numTokens: 64,
  numChats: 32,
  numGroups: 8,
  groupSize: 8,
  promptTokens: 376,
  numConversations: 16,
  numTurns: 4,
  numAdapters: [1, 4, 16],
  numSequences: [1, 8, 32, 64, 128],
  promptLengths: [100, 500, 1_700, 7_000],
  numInFlight: 500,
};

/** Smallest sizes that run every line; the results mean nothing. */
export const SHORT: Sizes = {
  numTokens: 8,
  numChats: 4,
  numGroups: 2,
  groupSize: 2,
  promptTokens: 100,
  numConversations: 2,
  numTurns: 2,
  numAdapters: [1, 2],
  numSequences: [1, 4],
  promptLengths: [200],
  numInFlight: 20,
};

/** 18 tokens in a typical vocabulary. */
const SENTENCE = 'The harbour keeps a log of ships, tides, cargo and weather, written by hand every evening. ';
const TOKENS_OF_SENTENCE = 18;
/** Concurrent chats. */
const NUM_PLAIN_CHATS = 8;
/** Answer length for workloads that measure the start. */
const FEW_TOKENS = 8;

interface Chats {
  readonly count: number;
  readonly numTokens: number;
  readonly modelOf: ModelOf;
}

/** Workloads in the order of the table. */
export function workloadsOf(sizes: Sizes): Workload[] {
  const { numTokens, numChats, numGroups, groupSize, promptTokens, numConversations, numTurns } = sizes;
  const mostAdapters = Math.max(...sizes.numAdapters);
  const chats = (server: ServerUnderTest, seed: number, { count, numTokens: tokens, modelOf }: Chats): Task[] =>
    range(count).map((index) =>
      chat(server, {
        model: modelOf(index),
        messages: shortPrompt(seed, index),
        numTokens: tokens,
      }),
    );
  const rollouts = (server: ServerUnderTest, seed: number, model: string): Task[] =>
    range(numGroups).map((index) =>
      chat(server, {
        model,
        messages: longPrompt(seed, index, promptTokens),
        numTokens,
        n: groupSize,
        logprobs: true,
      }),
    );
  return [
    {
      name: 'plain',
      how: `${numChats} chats, ${NUM_PLAIN_CHATS} at once, ${numTokens} tokens each`,
      numAdapters: 0,
      run: (server, seed) =>
        inTurns(NUM_PLAIN_CHATS, chats(server, seed, { count: numChats, numTokens, modelOf: () => server.model })),
    },
    {
      name: 'rollouts',
      how: `${numGroups} prompts of about ${promptTokens} tokens × n=${groupSize}, log-probabilities, ${numTokens} tokens each`,
      numAdapters: 0,
      run: (server, seed) => inTurns(numGroups, rollouts(server, seed, server.model)),
    },
    {
      name: 'rollouts as requests',
      how: `the same as ${numGroups * groupSize} requests at once`,
      numAdapters: 0,
      run: (server, seed) =>
        inTurns(
          numGroups * groupSize,
          range(numGroups * groupSize).map((index) =>
            chat(server, {
              model: server.model,
              // Different prompts from those of the groups.
              messages: longPrompt(seed, numGroups + Math.floor(index / groupSize), promptTokens),
              numTokens,
              logprobs: true,
            }),
          ),
        ),
    },
    {
      name: 'plain, adapter',
      how: 'plain under one adapter',
      numAdapters: 1,
      run: (server, seed) =>
        inTurns(
          NUM_PLAIN_CHATS,
          chats(server, seed, { count: numChats, numTokens, modelOf: () => adapterOf(server, 0) }),
        ),
    },
    {
      name: 'rollouts, adapter',
      how: 'rollouts under one adapter, as in training after its first step',
      numAdapters: 1,
      run: (server, seed) => inTurns(numGroups, rollouts(server, seed, adapterOf(server, 0))),
    },
    {
      name: 'multi-turn',
      how: `${numConversations} rollouts at once, each continues its own conversation: ${numTurns} turns of ${numTokens / 2} tokens after a prompt of about ${promptTokens}`,
      numAdapters: 0,
      run: (server, seed) =>
        inTurns(
          numConversations,
          range(numConversations).map(
            (index) => () =>
              converse(server, {
                numTurns,
                numTokens: numTokens / 2,
                messages: longPrompt(seed, index, promptTokens),
              }),
          ),
        ),
    },
    ...sizes.numAdapters.map((count): Workload => ({
      name: `${count} adapter${count === 1 ? '' : 's'}`,
      how: `${8 * count} chats at once, 8 under each of ${count} adapter${count === 1 ? '' : 's'}, ${numTokens / 2} tokens each`,
      numAdapters: count,
      run: (server, seed) =>
        inTurns(
          8 * count,
          chats(server, seed, {
            count: 8 * count,
            numTokens: numTokens / 2,
            modelOf: (index) => adapterOf(server, index % count),
          }),
        ),
    })),
    {
      name: 'one adapter for as many',
      how: `${8 * mostAdapters} chats at once under one adapter, as a comparison for ${mostAdapters} adapters`,
      numAdapters: 1,
      run: (server, seed) =>
        inTurns(
          8 * mostAdapters,
          chats(server, seed, {
            count: 8 * mostAdapters,
            numTokens: numTokens / 2,
            modelOf: () => adapterOf(server, 0),
          }),
        ),
    },
    ...sizes.numSequences.map((count): Workload => ({
      name: `${count} sequence${count === 1 ? '' : 's'}`,
      how: `${count} chat${count === 1 ? '' : 's'} at once, ${numTokens} tokens each`,
      numAdapters: 0,
      run: (server, seed) => inTurns(count, chats(server, seed, { count, numTokens, modelOf: () => server.model })),
    })),
    ...sizes.promptLengths.map((length): Workload => ({
      name: `prompt of ${length}`,
      figure: 'first token',
      how: `one chat after about ${length} uncached tokens, ${FEW_TOKENS} tokens: the first token's time is the prompt's`,
      numAdapters: 0,
      run: (server, seed) =>
        inTurns(1, [
          chat(server, {
            model: server.model,
            messages: longPrompt(seed, 0, length),
            numTokens: FEW_TOKENS,
          }),
        ]),
    })),
    {
      name: `${sizes.numInFlight} in flight`,
      how: `${sizes.numInFlight} chats at once, ${FEW_TOKENS} tokens each`,
      numAdapters: 0,
      run: (server, seed) =>
        inTurns(
          sizes.numInFlight,
          chats(server, seed, { count: sizes.numInFlight, numTokens: FEW_TOKENS, modelOf: () => server.model }),
        ),
    },
  ];
}

type Task = () => Promise<StreamedAnswer[]>;
type ModelOf = (index: number) => string;

/** Runs at most `width` tasks at a time. */
async function inTurns(width: number, tasks: readonly Task[]): Promise<StreamedAnswer[]> {
  const answers: StreamedAnswer[] = [];
  const left = [...tasks];
  const work = async (): Promise<void> => {
    for (let task = left.shift(); task !== undefined; task = left.shift()) answers.push(...(await task()));
  };
  await Promise.all(range(width).map(work));
  return answers;
}

const chat =
  (server: ServerUnderTest, work: ChatWork): Task =>
  async () => [await streamAnswer(server, work)];

async function converse(
  server: ServerUnderTest,
  work: { numTurns: number; numTokens: number; messages: Messages },
): Promise<StreamedAnswer[]> {
  const answers: StreamedAnswer[] = [];
  let { messages } = work;
  for (let turn = 0; turn < work.numTurns; turn++) {
    const answer = await streamAnswer(server, {
      model: server.model,
      messages,
      numTokens: work.numTokens,
      logprobs: true,
    });
    answers.push(answer);
    messages = [
      ...messages,
      { role: 'assistant', content: answer.text },
      { role: 'user', content: `Go on with entry ${turn + 2}.` },
    ];
  }
  return answers;
}

/** First words differ, so that no cache helps. */
function shortPrompt(seed: number, index: number): Messages {
  return [{ role: 'user', content: `Ship ${seed}-${index}: tell me about the sea and those who crossed it.` }];
}

function longPrompt(seed: number, index: number, numTokens: number): Messages {
  const text = SENTENCE.repeat(Math.max(1, Math.round((numTokens - 45) / TOKENS_OF_SENTENCE)));
  return [{ role: 'user', content: `Log ${seed}-${index}. ${text}Write the next entry.` }];
}

function adapterOf({ name, adapters }: ServerUnderTest, index: number): string {
  const adapter = adapters[index];
  if (adapter === undefined) throw new Error(`${name} has ${adapters.length} adapters, not ${index + 1}`);
  return adapter;
}

const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index);
