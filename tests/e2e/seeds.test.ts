/**
 * Guarantee of a seed with `--precision exact`: the same request gives the same tokens and log-probabilities
 * bit for bit, for any cache and batch. With llama.cpp as far as the logits are equal, which
 * `text-engine.model.test.ts` measures.
 */
import { Trainyard } from '@trainyard/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { scoredGroup } from '../support/groups.ts';
import { smallService } from '../support/small-service.ts';

const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const TIMEOUT_MS = 600_000;

interface Choice {
  readonly tokenIds: readonly number[];
  readonly logprobs: readonly number[];
}
interface Answer {
  readonly choices: readonly Choice[];
  readonly cachedTokens: number;
}

const asks = (content: string) => ({ messages: [{ role: 'user', content }] });
const LOG = 'The harbour keeps a log of ships, tides, cargo and weather, written by hand every evening. ';
const SHIP = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 40 }, year: { type: 'integer' }, cargo: { type: 'string' } },
  required: ['name', 'year', 'cargo'],
};
const REQUESTS: Readonly<Record<string, { seed: number } & Record<string, unknown>>> = {
  'a short prompt': { ...asks('Tell me a story.'), seed: 1, max_tokens: 72 },
  'a long prompt': { ...asks(`${LOG.repeat(12)}Go on.`), seed: 2, max_tokens: 48 },
  'n = 4': { ...asks('Name a city and say why.'), seed: 3, n: 4, max_tokens: 36 },
  'a schema': {
    ...asks('Describe a ship as JSON.'),
    seed: 4,
    max_tokens: 64,
    response_format: { type: 'json_schema', json_schema: { name: 'ship', schema: SHIP } },
  },
  'top_p, top_k, penalties': {
    ...asks('Write about the sea.'),
    seed: 5,
    max_tokens: 64,
    temperature: 0.8,
    top_p: 0.9,
    top_k: 40,
    frequency_penalty: 0.3,
  },
};

async function ask(service: OwnService, fields: object): Promise<Answer> {
  const response = await fetch(`${service.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ return_token_ids: true, logprobs: true, ...fields }),
  });
  if (response.status !== 200) throw new Error(await response.text());
  const answer = (await response.json()) as {
    choices: { token_ids: number[]; logprobs: { content: { logprob: number }[] } }[];
    usage: { prompt_tokens_details: { cached_tokens: number } };
  };
  return {
    choices: answer.choices.map((choice) => ({
      tokenIds: choice.token_ids,
      logprobs: choice.logprobs.content.map(({ logprob }) => logprob),
    })),
    cachedTokens: answer.usage.prompt_tokens_details.cached_tokens,
  };
}

let service: OwnService;
beforeAll(async () => {
  service = await smallService();
});
afterAll(async () => {
  await service.close();
});

/** Equal salts share the cache. */
let numSalts = 0;
const freshSalt = () => ({ cache_salt: `salt ${numSalts++}` });

/** A request, its answer alone with a cold cache, and its answers in other ways. */
interface Asked {
  readonly request: object;
  readonly salt: object;
  readonly alone: Answer;
  readonly ways: Record<string, Answer>;
}

/** One after the other, without other requests. */
async function askAlone(request: object): Promise<Asked> {
  const salt = freshSalt();
  const alone = await ask(service, { ...request, ...salt });
  const again = await ask(service, { ...request, ...freshSalt() });
  const cached = await ask(service, { ...request, ...salt });
  expect(cached.cachedTokens).toBeGreaterThan(0);
  return { request, salt, alone, ways: { again, 'after a cache hit': cached } };
}

/** As long as most of the requests above. */
function others(): Promise<Answer>[] {
  const question = (index: number) => `${LOG.repeat(index % 4)}What about number ${index}?`;
  return Array.from({ length: 16 }, (_, index) =>
    ask(service, { ...asks(question(index)), seed: 100 + index, max_tokens: 48, ignore_eos: true }),
  );
}

/** All of them twice, concurrently with 16 others: with a recomputed prompt, and with the cached one. */
async function askBesideOthers(all: readonly Asked[]): Promise<void> {
  const company = others();
  await Promise.all(
    all.map(async ({ request, salt, ways }) => {
      const asked = [freshSalt(), salt].map((own) => ask(service, { ...request, ...own }));
      [ways['beside others'], ways['both']] = (await Promise.all(asked)) as [Answer, Answer];
    }),
  );
  await Promise.all(company);
}

describe('the same seed and the same request', () => {
  it(
    'give the same tokens and log-probabilities as the first request of a fresh service',
    async () => {
      // The service of this file has answered nothing yet.
      const other = await smallService();
      try {
        const [one, two] = await Promise.all([service, other].map((fresh) => ask(fresh, REQUESTS['n = 4']!)));
        const numTokens = one!.choices.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
        console.log(`two fresh services: ${numTokens} tokens of 4 choices`);
        expect(numTokens).toBeGreaterThan(60);
        expect(two).toEqual(one);
      } finally {
        await other.close();
      }
    },
    TIMEOUT_MS,
  );

  it(
    'give the same tokens and log-probabilities alone, again, after a cache hit and next to 16 others',
    async () => {
      const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
      const { id, entity } = await client.models.register({ project: 'seeds', name: 'adapted', base_model: BASE });
      const adapted = `${entity}/seeds/adapted`;
      const job = await client.trainingJobs.create({
        model_id: id,
        trajectory_groups: [await scoredGroup(client, adapted)],
        experimental_config: { learning_rate: 1e-4 },
      });
      await client.trainingJobs.gradientSteps(job.id);
      const withAdapter = { ...asks('Tell me about the tides.'), model: `${adapted}:step1`, seed: 6, max_tokens: 48 };
      const all: Record<string, Asked> = {};
      for (const [name, request] of Object.entries({ ...REQUESTS, 'an adapter': withAdapter }))
        all[name] = await askAlone(request);
      await askBesideOthers(Object.values(all));
      for (const [name, { alone, ways }] of Object.entries(all)) {
        expect(Object.keys(ways)).toHaveLength(4);
        for (const [way, { choices }] of Object.entries(ways))
          expect(choices, `${name}, ${way}`).toEqual(alone.choices);
      }
      const lengths = Object.values(all).map(({ alone }) => alone.choices.map(({ tokenIds }) => tokenIds.length));
      const numTokens = lengths.flat().reduce((sum, length) => sum + length, 0);
      console.log(`${numTokens} tokens, each the same five times`);
      expect(numTokens).toBeGreaterThan(300);
    },
    TIMEOUT_MS,
  );
});
