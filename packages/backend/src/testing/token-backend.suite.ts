import { DEFAULT_SAMPLING } from '@trainyard/protocol/fields';
import { afterEach, beforeEach, describe, expect, it, type TestContext } from 'vitest';
import { type AdapterVersion, DEFAULT_SAMPLE } from '../sample-request.ts';
import type {
  SampledTokens,
  SampleFeature,
  SampleOutput,
  SampleParams,
  SampleTotals,
  ScoreParams,
  TokenBackend,
} from '../token-backend.ts';

export interface TokenBackendHarness {
  /** Not started. Its model's replies to `promptIds` are long and uncertain. */
  readonly backend: TokenBackend;
  /** At least 8 ids of a text. */
  readonly promptIds: readonly number[];
  /** Two that change the model's replies. Absent if the back end supports none. */
  readonly adapters?: readonly [AdapterVersion, AdapterVersion];
  /** Maximum difference of log-probabilities of the same token. */
  readonly tolerance: number;
  /** Closes everything but the back end. */
  close?(): Promise<void> | void;
}

const NEVER = new AbortController().signal;

/** Greedy parameters with one choice of 8 tokens, past ends of replies. */
export function sampleParams(
  options: Partial<Omit<SampleParams, 'sampling'>> & { sampling?: Partial<SampleParams['sampling']> } = {},
): SampleParams {
  return {
    ...DEFAULT_SAMPLE,
    tenant: 'suite',
    adapter: null,
    maxTokens: 8,
    ignoreEos: true,
    bannedSequences: [],
    constraint: null,
    text: null,
    ...options,
    sampling: { ...DEFAULT_SAMPLING, temperature: 0, ...options.sampling },
  };
}

interface Sampled {
  readonly outputs: readonly SampleOutput[];
  readonly totals: SampleTotals;
}

async function collect(sampled: AsyncGenerator<SampleOutput, SampleTotals>): Promise<Sampled> {
  const outputs: SampleOutput[] = [];
  for (;;) {
    const { done, value } = await sampled.next();
    if (done) return { outputs, totals: value };
    outputs.push(value);
  }
}

function stepsOf({ outputs }: Sampled, index = 0): SampledTokens[] {
  return outputs.filter((output) => output.kind === 'tokens').filter((output) => output.index === index);
}

const idsOf = (sampled: Sampled, index = 0): number[] => stepsOf(sampled, index).flatMap(({ tokenIds }) => tokenIds);

/** Required behaviour of every {@link TokenBackend}, with any sampler. Closes everything it opens. */
export function describeTokenBackend(
  name: string,
  open: () => TokenBackendHarness | Promise<TokenBackendHarness>,
): void {
  describe(`token back end: ${name}`, () => {
    let harness: TokenBackendHarness;
    let backend: TokenBackend;
    let promptIds: readonly number[];

    beforeEach(async () => {
      harness = await open();
      ({ backend, promptIds } = harness);
      await backend.start();
    });
    afterEach(async () => {
      await backend.close();
      await harness.close?.();
    });

    const sample = (options: Parameters<typeof sampleParams>[0] = {}, ids = promptIds): Promise<Sampled> =>
      collect(backend.sample(ids, sampleParams(options), NEVER));
    const score = (ids: readonly number[], options: Partial<ScoreParams> = {}) =>
      backend.score(ids, { ...sampleParams(), numTop: 0, ...options }, NEVER);
    /** Skips a test of an optional ability. */
    const needs = (feature: SampleFeature, context: TestContext): void =>
      context.skip(!backend.capabilities.features.has(feature));

    it('reports its model', async () => {
      expect(backend.specVersion).toBe(1);
      expect(backend.models.length).toBeGreaterThan(0);
      for (const { id, contextLength, vocabSize } of backend.models) {
        expect(id).not.toBe('');
        expect(Math.min(contextLength, vocabSize)).toBeGreaterThan(promptIds.length);
      }
      expect((await backend.health()).problem).toBeNull();
    });

    it('starts, gives tokens, and ends each choice once', async () => {
      const numChoices = 3;
      const sampled = await sample({ n: numChoices, sampling: { temperature: 1 } });
      expect(sampled.outputs[0]?.kind).toBe('started');
      for (let index = 0; index < numChoices; index++) {
        const steps = stepsOf(sampled, index);
        const ids = idsOf(sampled, index);
        expect(ids).toHaveLength(8);
        expect(ids.every((id) => id >= 0 && id < backend.models[0]!.vocabSize)).toBe(true);
        expect(steps.filter(({ finish }) => finish !== null)).toEqual([steps.at(-1)]);
        expect(steps.at(-1)?.finish).toEqual({ reason: 'length', stopReason: null });
        expect(steps.every(({ logprobs }) => logprobs === null)).toBe(true);
      }
      expect(sampled.totals).toMatchObject({ promptTokens: promptIds.length, completionTokens: 8 * numChoices });
    });

    it('gives the same tokens again at temperature 0', async () => {
      expect(idsOf(await sample())).toEqual(idsOf(await sample()));
    });

    it('draws choice i of seed s as the choice of seed s + i', async (context) => {
      needs('seeds', context);
      const drawn = (seed: bigint, n: number): Promise<Sampled> => sample({ n, sampling: { temperature: 1, seed } });
      const three = await drawn(7n, 3);
      for (const i of [0, 1, 2]) expect(idsOf(three, i)).toEqual(idsOf(await drawn(7n + BigInt(i), 1)));
    });

    it('reports for each token its log-probability, and the likeliest', async () => {
      const sampled = await sample({ logprobs: 3, sampling: { temperature: 1 } });
      const ids = idsOf(sampled);
      const entries = stepsOf(sampled).flatMap(({ logprobs }) => logprobs ?? []);
      expect(entries.map(({ id }) => id)).toEqual(ids);
      for (const { id, logprob, top } of entries) {
        expect(logprob).toBeLessThanOrEqual(0);
        expect(top[0]).toEqual({ id, logprob });
        expect(top).toHaveLength(3);
        expect(new Set(top.map((entry) => entry.id)).size).toBe(3);
        const others = top.slice(1).map((entry) => entry.logprob);
        expect(others).toEqual(others.toSorted((a, b) => b - a));
      }
    });

    it('scores its own samples as when sampling', async (context) => {
      needs('promptLogprobs', context);
      const sampled = await sample({ logprobs: 0, sampling: { temperature: 1 } });
      const ids = [...promptIds, ...idsOf(sampled)];
      const scores = await score(ids, { numTop: 2 });
      expect(scores).toHaveLength(ids.length);
      expect(scores[0]).toBeNull();
      expect(scores.map((entries, at) => entries?.[0]?.id ?? ids[at])).toEqual(ids);
      for (const entries of scores.slice(1)) {
        expect(entries!.length).toBeGreaterThanOrEqual(2);
        for (const { rank } of entries!) expect(rank).toBeGreaterThanOrEqual(1);
      }
      const reported = stepsOf(sampled).flatMap(({ logprobs }) => logprobs ?? []);
      const differences = reported.map(({ logprob }, at) =>
        Math.abs(logprob - scores[promptIds.length + at]![0]!.logprob),
      );
      expect(Math.max(...differences)).toBeLessThan(harness.tolerance);
    });

    it('stops at the given stop token', async () => {
      const [, second] = idsOf(await sample());
      const sampled = await sample({ stopTokenIds: [second!] });
      expect(stepsOf(sampled).at(-1)).toMatchObject({ finish: { reason: 'stop', stopReason: second } });
      expect(idsOf(sampled).at(-1)).toBe(second);
      expect(idsOf(sampled).length).toBeLessThanOrEqual(2);
    });

    it('ends aborted requests, even before they start, and requests without a reader', async () => {
      const aborted = expect.objectContaining({ code: 'engine.aborted' });
      const long = sampleParams({ maxTokens: 200, sampling: { temperature: 1 } });
      const controller = new AbortController();
      const sampled = backend.sample(promptIds, long, controller.signal);
      await sampled.next();
      controller.abort();
      await expect(collect(sampled)).rejects.toEqual(aborted);
      await expect(collect(backend.sample(promptIds, long, controller.signal))).rejects.toEqual(aborted);
      for await (const output of backend.sample(promptIds, long, NEVER)) if (output.kind === 'tokens') break;
      await expect.poll(async () => (await backend.health()).stats?.numRequests ?? 0).toBe(0);
    });

    it('serves several at a time, each as if it were alone', async () => {
      const prompts = [0, 1, 2, 3].map((skipped) => promptIds.slice(skipped));
      const alone: number[][] = [];
      for (const ids of prompts) alone.push(idsOf(await sample({}, ids)));
      const together = await Promise.all(prompts.map((ids) => sample({}, ids)));
      expect(together.map((sampled) => idsOf(sampled))).toEqual(alone);
    });

    it('samples from adapter versions that are published, and from no other', async (context) => {
      needs('adapters', context);
      const [first, second] = harness.adapters!;
      const refused = expect.objectContaining({ code: 'engine.adapter_unreadable' });
      await expect(sample({ adapter: first.digest })).rejects.toEqual(refused);
      for (const adapter of [first, second, first]) await backend.publish(adapter);
      const logprobs: number[] = [];
      for (const adapter of [null, first.digest, second.digest]) {
        const sampled = await sample({ adapter, logprobs: 0, maxTokens: 1 });
        logprobs.push(stepsOf(sampled)[0]!.logprobs![0]!.logprob);
      }
      expect(new Set(logprobs).size).toBe(3);
      await backend.retire(second.digest);
      await backend.retire('no digest');
      await expect(sample({ adapter: second.digest })).rejects.toEqual(refused);
      expect(idsOf(await sample({ adapter: first.digest }))).toHaveLength(8);
    });

    it.each<
      [string, Parameters<typeof sampleParams>[0], (ids: readonly number[], vocabSize: number) => number[], string]
    >([
      ['an empty prompt', {}, () => [], 'prompt'],
      ['an id outside the vocabulary', {}, (ids, vocabSize) => [...ids, vocabSize], 'prompt'],
      ['settings out of range', { sampling: { topP: 0 } }, (ids) => [...ids], 'topP'],
      [
        'a constraint that it does not enforce',
        { constraint: { kind: 'none that is known' } },
        (ids) => [...ids],
        'constraint',
      ],
    ])('refuses %s by name', async (_what, options, ids, param) => {
      const refusal = sample(options, ids(promptIds, backend.models[0]!.vocabSize));
      await expect(refusal).rejects.toEqual(expect.objectContaining({ code: 'engine.invalid_request', param }));
    });

    it('refuses a prompt that leaves no capacity for a reply', async () => {
      const { contextLength } = backend.models[0]!;
      const ids = Array.from({ length: contextLength }, (_, at) => promptIds[at % promptIds.length]!);
      await expect(sample({}, ids)).rejects.toEqual(expect.objectContaining({ code: 'context_length_exceeded' }));
    });

    it('refuses unsupported fields by name', async () => {
      const { features } = backend.capabilities;
      const [id] = promptIds;
      const asked: Record<Exclude<SampleFeature, 'adapters' | 'tracesSampling'>, [string, Partial<SampleParams>]> = {
        allowedTokenIds: ['allowedTokenIds', { allowedTokenIds: [...promptIds] }],
        bannedSequences: ['bannedSequences', { bannedSequences: [[id!]] }],
        beamSearch: ['beamSearch', { beamSearch: { lengthPenalty: 1 } }],
        logits: ['logprobsMode', { logprobs: 1, logprobsMode: 'raw_logits' }],
        logprobTokenIds: ['logprobTokenIds', { logprobs: 1, logprobTokenIds: [id!] }],
        priorities: ['priority', { priority: 1 }],
        processedLogprobs: ['logprobsMode', { logprobs: 1, logprobsMode: 'processed' }],
        promptLogprobs: ['promptLogprobs', { promptLogprobs: 1 }],
        repetitionDetection: [
          'repetitionDetection',
          { repetitionDetection: { maxPatternSize: 2, minPatternSize: 1, minCount: 3 } },
        ],
        seeds: ['seed', { sampling: { ...DEFAULT_SAMPLING, seed: 1n } }],
      };
      for (const [feature, [param, options]] of Object.entries(asked)) {
        const answer = sample({ sampling: { temperature: 1, seed: null }, ...options, n: 2 });
        if (features.has(feature as SampleFeature)) await answer;
        else await expect(answer).rejects.toEqual(expect.objectContaining({ code: 'engine.invalid_request', param }));
      }
    });

    it('reports log-probabilities and their sum with a mode of logits, if supported', async (context) => {
      needs('logits', context);
      const asked = { maxTokens: 3, logprobs: 4, sampling: { temperature: 1, seed: 3n } };
      for (const [mode, logits] of [
        ['raw', 'raw_logits'],
        ['processed', 'processed_logits'],
      ] as const) {
        const plain = stepsOf(await sample({ ...asked, logprobsMode: mode }));
        const steps = stepsOf(await sample({ ...asked, logprobsMode: logits }));
        const entries = steps.flatMap(({ logprobs }) => logprobs!);
        for (const { logitSum } of entries) expect(Number.isFinite(logitSum)).toBe(true);
        const withoutSums = entries.map(({ logitSum: _logitSum, ...entry }) => entry);
        expect(withoutSums).toEqual(plain.flatMap(({ logprobs }) => logprobs!));
      }
    });

    it("reports the sampling distribution of each token, if supported and if it is not plainly the model's", async () => {
      const tracesSampling = backend.capabilities.features.has('tracesSampling');
      const draws = async (topK: number) => {
        const sampled = await sample({ tracesSampling, sampling: { temperature: 1, topK, seed: 3n } });
        const steps = stepsOf(sampled);
        expect(steps.length).toBeGreaterThan(0);
        return steps.map(({ tokenIds, draws: reported }) => ({ tokenIds, reported }));
      };
      // Only a sampler that traces drops tokens.
      for (const { tokenIds, reported } of await draws(tracesSampling ? 4 : 0)) {
        expect(reported?.length ?? 0).toBe(tracesSampling ? tokenIds.length : 0);
        for (const [at, draw] of reported?.entries() ?? []) {
          if (typeof draw === 'string') throw new Error(`the draw is ${draw}`);
          expect(draw.logprob).toBeLessThanOrEqual(0);
          expect(draw.kept!.isComplement).toBe(false);
          expect(draw.kept!.ids.length).toBeGreaterThanOrEqual(4);
          expect([...draw.kept!.ids]).toContain(tokenIds[at]);
        }
      }
      for (const { reported } of await draws(0)) expect(reported).toBeUndefined();
    });

    it('ends requests in flight when it is closed', async () => {
      const sampled = backend.sample(promptIds, sampleParams({ maxTokens: 200, sampling: { temperature: 1 } }), NEVER);
      await sampled.next();
      await backend.close();
      await expect(collect(sampled)).rejects.toEqual(expect.objectContaining({ code: 'engine.aborted' }));
    });
  });
}
