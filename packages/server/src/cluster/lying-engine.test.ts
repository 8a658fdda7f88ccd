/** Engines with the secret that send invalid answers: broken memory, another build, a bug. */
import { DEFAULT_GENERATE, type EngineEvent } from '@trainyard/generation';
import { expect, onTestFinished, test } from 'vitest';

import { engineMember, MemberList, openEngines, openPort } from '../testing/behind-port.ts';
import { ScriptedInference } from '../testing/scripted-inference.ts';

const REQUEST = {
  ...DEFAULT_GENERATE,
  requestId: 'r',
  tenant: 't',
  prompt: { kind: 'text', text: 'hello', addSpecialTokens: false },
  adapter: null,
  maxTokens: 4,
} as const;

const STARTED: EngineEvent = { kind: 'started', promptTokenIds: [1], cachedTokens: 0 };
const COMPLETED: EngineEvent = { kind: 'completed', usage: { promptTokens: 1, completionTokens: 1, cachedTokens: 0 } };
const delta = (tokenIds: number[], index = 0): EngineEvent => ({
  kind: 'delta',
  index,
  text: 'x',
  tokenIds,
  logprobs: null,
});
const likely = (logprob: unknown, top: unknown = []) => ({
  ...delta([1]),
  logprobs: [{ id: 1, bytes: [120], text: 'x', logprob, top }],
});
const unnormalised = (logitSum: unknown) => ({
  ...delta([1]),
  logprobs: [{ id: 1, bytes: [120], text: 'x', logprob: -1, top: [], logitSum }],
});
const scored = (logprob: unknown) => ({
  kind: 'prompt_scored',
  first: { id: 1, bytes: [120], text: 'x' },
  promptLogprobs: [null, [{ id: 1, bytes: [120], text: 'x', logprob, rank: 1 }]],
});
const traced = (logprobs: Float32Array) => ({
  ...finished([1]),
  sampling: { settings: {}, trace: { logprobs, kept: new Uint8Array(0) }, lost: null },
});
const finished = (tokenIds: number[], index = 0): EngineEvent => ({
  kind: 'finished',
  index,
  text: '',
  tokenIds,
  logprobs: null,
  finishReason: 'stop',
  stopReason: null,
});

async function answer(events: readonly unknown[]): Promise<{ read: EngineEvent[]; logged: string }> {
  const inference = new ScriptedInference();
  inference.script = () => events as EngineEvent[];
  const { port, url } = await openPort(inference);
  onTestFinished(() => port.close());
  const lines: string[] = [];
  const engines = await openEngines(new MemberList([engineMember(url)]), { log: (line) => lines.push(line) });
  onTestFinished(() => engines.close());
  const read: EngineEvent[] = [];
  for await (const event of engines.of('tiny/base').generate(REQUEST, new AbortController().signal)) read.push(event);
  return { read, logged: lines.join('\n') };
}

test.each<[string, unknown[]]>([
  ['before the start', [delta([1])]],
  ['started twice', [STARTED, STARTED]],
  ['not in progress', [STARTED, delta([1], 1)]],
  ['not in progress', [STARTED, delta([1], -1)]],
  ['not in progress', [STARTED, delta([1], 'x' as never)]],
  ['not in progress', [STARTED, finished([1]), delta([1])]],
  ['the token 1000 is outside', [STARTED, delta([1_000])]],
  ['the token -1 is outside', [STARTED, finished([-1])]],
  ['the token 0.5 is outside', [STARTED, delta([0.5])]],
  ['the token null is outside', [STARTED, delta([Number.NaN])]],
  ['the token -7 is outside', [{ ...STARTED, promptTokenIds: [-7] }]],
  ['token ids are no list', [STARTED, delta({ length: 3 } as never)]],
  ['more than 4 tokens', [STARTED, ...Array.from({ length: 100 }, () => delta([1]))]],
  ['the log-probability null is no number', [STARTED, likely(Number.NaN)]],
  ['the log-probability null is no number', [STARTED, likely(Number.NEGATIVE_INFINITY)]],
  ['the log-probability "-1" is no number', [STARTED, likely('-1')]],
  ['the log-probability null is no number', [STARTED, likely(-1, [{ id: 2, logprob: Number.NaN }])]],
  ['the log-probability null is no number', [STARTED, unnormalised(Number.NaN)]],
  ['log-probabilities are no list', [STARTED, likely(-1, 'none')]],
  ['log-probabilities are no list', [STARTED, { ...delta([1]), logprobs: 3 }]],
  ['the log-probability null is no number', [STARTED, scored(Number.NaN)]],
  ['the log-probability null is no number', [STARTED, traced(Float32Array.of(-1, Number.NEGATIVE_INFINITY))]],
  ['completed before its choices', [STARTED, delta([1]), COMPLETED]],
  ['there is no event "other"', [STARTED, { kind: 'other' }]],
])('it is asked no more, and no client reads it: %s', async (words, events) => {
  const { read, logged } = await answer(events);
  expect(read.at(-1)).toMatchObject({ kind: 'failed', code: 'engine.host_lost' });
  expect(logged).toContain(`sent an invalid response`);
  expect(logged).toContain(words);
  expect(read.filter(({ kind }) => kind === 'delta').length).toBeLessThan(5);
});

test('nothing after the end is read', async () => {
  const events = [STARTED, delta([1]), finished([2]), COMPLETED];
  const { read } = await answer([...events, delta([3]), { kind: 'failed', code: 'engine.internal' }]);
  expect(read).toEqual(events);
});
