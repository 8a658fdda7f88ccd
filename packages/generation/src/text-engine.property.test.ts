import fc from 'fast-check';
import { expect, test } from 'vitest';
import { DigitConstraints } from './testing/digit-matcher.ts';
import type { DigitSpec } from './testing/digit-matcher.ts';
import { Harness, request } from './testing/text-harness.ts';
import type { RequestOptions, Transcript } from './testing/text-harness.ts';
import type { GenerateRequest } from './contract/generate-request.ts';

/** Answer of a request alone on an engine with room for everything. */
function alone(asked: GenerateRequest): Transcript {
  const harness = new Harness({
    capacityTokens: 4096,
    contextLength: CONTEXT_LENGTH,
    constraints: new DigitConstraints(),
  });
  const transcript = harness.submit(asked);
  harness.run();
  return transcript;
}

const CONTEXT_LENGTH = 60;

/** Checks that the answer is that of the request alone, or its start if it was aborted. */
function checkAnswer(asked: GenerateRequest, reply: Transcript): void {
  const twin = alone(asked);
  if (twin.failed) {
    expect([twin.failed.code, 'engine.aborted']).toContain(reply.failed?.code);
    return;
  }
  for (let index = 0; index < asked.n; index++) {
    const tokens = reply.tokenIds(index);
    expect(tokens).toEqual(reply.completed ? twin.tokenIds(index) : twin.tokenIds(index).slice(0, tokens.length));
    expect(reply.finished(index)).toEqual(reply.completed || reply.finished(index) ? twin.finished(index) : undefined);
    expect(reply.logprobs(index)).toEqual(twin.logprobs(index).slice(0, reply.logprobs(index).length));
    const text = reply.text(index);
    expect(text).toBe(reply.completed ? twin.text(index) : twin.text(index).slice(0, text.length));
  }
  expect(reply.failed?.code).toBe(reply.completed ? undefined : 'engine.aborted');
  if (!reply.completed) return;
  expect(reply.completed.promptLogprobs).toEqual(twin.completed?.promptLogprobs);
  const { cachedTokens, promptTokens, completionTokens } = reply.completed.usage;
  expect({ promptTokens, completionTokens, cachedTokens: 0 }).toEqual(twin.completed?.usage);
  expect(cachedTokens).toBeLessThan(promptTokens);
}

const anyRequest: fc.Arbitrary<RequestOptions> = fc.record({
  // Few stems and lengths, so that prompts share prefixes, contain each other or differ at the first token.
  prompt: fc
    .tuple(
      fc.constantFrom('aaaaaaaaaaaaaaaaaaaa', 'aaaaaaaaaabbbbbbbbbb', 'cccc'),
      fc.nat(20),
      fc.constantFrom('', 'x', 'yz'),
    )
    .map(([stem, length, tail]) => `${stem.slice(0, length + 1)}${tail}`),
  tenant: fc.constantFrom('t', 't', 'u'),
  adapter: fc.constantFrom(null, null, { digest: 'A', path: 'a' }, { digest: 'B', path: 'b' }),
  n: fc.constantFrom(1, 1, 2, 4),
  maxTokens: fc.constantFrom(null, 1, 3, 12, 30),
  minTokens: fc.constantFrom(0, 0, 1),
  ignoreEos: fc.boolean(),
  stop: fc.constantFrom([], [], ['a'], ['\u0001']),
  logprobs: fc.constantFrom(null, null, 0, 2),
  logprobsMode: fc.constantFrom('raw', 'raw', 'processed', 'raw_logits', 'processed_logits'),
  promptLogprobs: fc.constantFrom(null, null, null, 0, 2),
  allowedTokenIds: fc.constantFrom(null, null, null, [49, 97, 98, 99]),
  badWords: fc.constantFrom([], [], ['a', 'bc'], ['7']),
  repetitionDetection: fc.constantFrom(null, null, { maxPatternSize: 4, minPatternSize: 0, minCount: 2 }),
  constraint: fc.constantFrom<(DigitSpec | null)[]>(null, null, null, { min: 1, max: 4 }, { min: 5, max: 50 }),
  constraintStartsAfter: fc.constantFrom(null, null, 'a'),
  beamSearch: fc.constantFrom(null, null, null, { lengthPenalty: 1 }),
  priority: fc.constantFrom(0, 0, 0, -1, 3),
  sampling: fc.record({
    temperature: fc.constantFrom(0.5, 1, 2),
    topP: fc.constantFrom(1, 0.8),
    topK: fc.constantFrom(0, 20),
    repetitionPenalty: fc.constantFrom(1, 1.2),
    frequencyPenalty: fc.constantFrom(0, 0.4),
    seed: fc.bigInt({ min: -5n, max: 5n }),
  }),
});

type Action =
  | { kind: 'submit'; asked: RequestOptions }
  | { kind: 'step' | 'abort' | 'pause' | 'resume'; target: number };
const anyAction: fc.Arbitrary<Action> = fc.oneof(
  { weight: 4, arbitrary: anyRequest.map((asked) => ({ kind: 'submit' as const, asked })) },
  { weight: 8, arbitrary: fc.nat(30).map((target) => ({ kind: 'step' as const, target })) },
  { weight: 1, arbitrary: fc.nat(30).map((target) => ({ kind: 'abort' as const, target })) },
  { weight: 2, arbitrary: fc.nat(30).map((target) => ({ kind: 'pause' as const, target })) },
  { weight: 1, arbitrary: fc.nat(30).map((target) => ({ kind: 'resume' as const, target })) },
);

const anyRunner = fc.record({
  capacityTokens: fc.integer({ min: CONTEXT_LENGTH, max: 200 }),
  maxSequences: fc.integer({ min: 1, max: 12 }),
  batchTokens: fc.integer({ min: 4, max: 64 }),
  adaptersPerBatch: fc.constantFrom(1, 1, 2, Infinity),
  shareGranularity: fc.constantFrom(1, 1, 3, 16),
  drawsOnDevice: fc.boolean(),
});
const anyLimits = fc.record({
  prefillTokens: fc.integer({ min: 1, max: 64 }),
  prefillTokensWhileDecoding: fc.integer({ min: 1, max: 16 }),
  maxCachedTokens: fc.nat(100),
  promptLogprobRows: fc.integer({ min: 1, max: 16 }),
});

test('any interleaving in little memory: books agree, every request ends once, and each answer equals that of the request alone', () => {
  const seen = {
    requests: 0,
    aborted: 0,
    preemptions: 0,
    prefixHitTokens: 0,
    steps: 0,
    beamSearches: 0,
    scoredPrompts: 0,
    matchers: 0,
  };
  fc.assert(
    fc.property(
      fc.array(anyAction, { minLength: 5, maxLength: 60 }),
      anyRunner,
      anyLimits,
      (actions, sizes, limits) => {
        const constraints = new DigitConstraints();
        const harness = new Harness({
          ...sizes,
          contextLength: CONTEXT_LENGTH,
          limits: { ...limits, maxChoices: 4 },
          constraints,
        });
        const all: { asked: GenerateRequest; reply: Transcript & { id: string } }[] = [];
        for (const action of actions) {
          if (action.kind === 'submit') {
            const asked = request(action.asked);
            all.push({ asked, reply: harness.submit(asked) });
          } else if (action.kind === 'step') harness.step();
          else {
            const target = all[action.target % Math.max(1, all.length)];
            if (target === undefined) continue;
            if (action.kind === 'abort') harness.engine.abort(target.reply.id);
            else harness.engine.setPaused(target.reply.id, action.kind === 'pause');
          }
          harness.check();
        }
        for (const { reply } of all) harness.engine.setPaused(reply.id, false);
        harness.run();

        const stats = harness.engine.stats();
        expect(stats).toMatchObject({ numRequests: 0, numRunning: 0, numWaiting: 0 });
        expect(constraints.numClosed).toBe(constraints.numOpened);
        seen.matchers += constraints.numOpened;
        for (const { asked, reply } of all) {
          expect(reply.numEnds).toBe(1);
          expect(['completed', 'failed']).toContain(reply.events.at(-1)?.kind);
          checkAnswer(asked, reply);
          if (reply.failed?.code === 'engine.aborted') seen.aborted++;
          if (reply.completed && asked.beamSearch) seen.beamSearches++;
          if (reply.completed?.promptLogprobs) seen.scoredPrompts++;
        }
        seen.requests += all.length;
        seen.preemptions += stats.numPreemptions;
        seen.prefixHitTokens += stats.prefixHitTokens;
        seen.steps += stats.numSteps;
      },
    ),
    { numRuns: 150, seed: 20 },
  );
  console.log('interleavings:', JSON.stringify(seen));
  // The property has no force if the cases never met.
  expect(seen.preemptions).toBeGreaterThan(50);
  expect(seen.prefixHitTokens).toBeGreaterThan(500);
  expect(seen.aborted).toBeGreaterThan(10);
  for (const count of [seen.beamSearches, seen.scoredPrompts, seen.matchers]) expect(count).toBeGreaterThan(50);
}, 600_000);

test('over a runner that answers later: requests that arrive while it computes change no answer', async () => {
  const seen = { requests: 0, meanwhile: 0, preemptions: 0, aborted: 0 };
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyAction, { minLength: 5, maxLength: 40 }),
      anyRunner,
      anyLimits,
      async (actions, sizes, limits) => {
        const constraints = new DigitConstraints();
        const harness = new Harness({
          ...sizes,
          answersLater: true,
          contextLength: CONTEXT_LENGTH,
          limits: { ...limits, maxChoices: 4 },
          constraints,
        });
        const all: { asked: GenerateRequest; reply: Transcript & { id: string } }[] = [];
        const act = (action: Action): void => {
          if (action.kind === 'submit') {
            const asked = request(action.asked);
            all.push({ asked, reply: harness.submit(asked) });
            return;
          }
          const target = all[action.target % Math.max(1, all.length)];
          if (target === undefined) return;
          if (action.kind === 'abort') harness.engine.abort(target.reply.id);
          else harness.engine.setPaused(target.reply.id, action.kind === 'pause');
        };
        // All actions between two steps happen during the first of them.
        let meanwhile: Action[] = [];
        for (const action of actions) {
          if (action.kind !== 'step') {
            meanwhile.push(action);
            continue;
          }
          const due = meanwhile;
          meanwhile = [];
          seen.meanwhile += due.length;
          await harness.stepLater(() => due.forEach(act));
        }
        meanwhile.forEach(act);
        for (const { reply } of all) harness.engine.setPaused(reply.id, false);
        await harness.runLater();

        const stats = harness.engine.stats();
        expect(stats).toMatchObject({ numRequests: 0, numRunning: 0, numWaiting: 0 });
        expect(constraints.numClosed).toBe(constraints.numOpened);
        for (const { asked, reply } of all) {
          expect(reply.numEnds).toBe(1);
          checkAnswer(asked, reply);
          if (reply.failed?.code === 'engine.aborted') seen.aborted++;
        }
        seen.requests += all.length;
        seen.preemptions += stats.numPreemptions;
      },
    ),
    { numRuns: 60, seed: 21 },
  );
  console.log('interleavings while a batch was computed:', JSON.stringify(seen));
  expect(seen.meanwhile).toBeGreaterThan(100);
  for (const count of [seen.preemptions, seen.aborted]) expect(count).toBeGreaterThan(5);
}, 600_000);
