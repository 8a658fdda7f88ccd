/**
 * The guarantees of a seed. The random numbers of a reply follow from its seed alone; the logits they meet depend a little on where among other cells of
 * the KV cache a prompt lies. So the first request of a fresh service always gives the same tokens, and later ones nearly always:
 * a difference must meet a draw that is that close. How often that is, is printed and bounded.
 */
import { Trainyard } from '@trainyard/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { ownService, type OwnService } from '../../scripts/own-service.ts';
import { scoredGroup } from '../support/groups.ts';

const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const TIMEOUT_MS = 600_000;
/** Seen: 0.015, after a cache hit. */
const MAX_LOGPROB_DIFFERENCE = 0.1;

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
  service = await ownService();
});
afterAll(async () => {
  await service.close();
});

/** Equal salts share memory. */
let numSalts = 0;
const freshSalt = () => ({ cache_salt: `salt ${numSalts++}` });

/** Tokens before two replies part, and the largest difference of a logprob until there. */
function compare(expected: Answer, actual: Answer): { same: number; of: number; parted: number; difference: number } {
  const sum = { same: 0, of: 0, parted: 0, difference: 0 };
  expect(actual.choices.length).toBe(expected.choices.length);
  for (const [index, { tokenIds, logprobs }] of expected.choices.entries()) {
    const other = actual.choices[index]!;
    const at = tokenIds.findIndex((id, position) => other.tokenIds[position] !== id);
    const length = at < 0 ? tokenIds.length : at;
    if (at >= 0) sum.parted++;
    else expect(other.tokenIds).toHaveLength(tokenIds.length);
    sum.same += length;
    sum.of += tokenIds.length;
    for (let position = 0; position < length; position++)
      sum.difference = Math.max(sum.difference, Math.abs(logprobs[position]! - other.logprobs[position]!));
  }
  return sum;
}

/** A request, what it gave alone on a cold cache, and what it gave in other ways. */
interface Measured {
  readonly request: object;
  readonly salt: object;
  readonly alone: Answer;
  readonly ways: Record<string, Answer>;
}

/** One after the other, with nothing beside. */
async function askAlone(request: object): Promise<Measured> {
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

/** All of them twice, at once, beside 16 others: with a prompt that is computed again, and with what is still in the cache. */
async function askBesideOthers(measured: readonly Measured[]): Promise<void> {
  const company = others();
  await Promise.all(
    measured.map(async ({ request, salt, ways }) => {
      const asked = [freshSalt(), salt].map((own) => ask(service, { ...request, ...own }));
      [ways['beside others'], ways['both']] = (await Promise.all(asked)) as [Answer, Answer];
    }),
  );
  await Promise.all(company);
}

/** Bounds what was measured. @returns tokens that are the same, and of how many, over all four ways */
function judge(name: string, { alone, ways }: Measured): [same: number, of: number] {
  const total: [number, number] = [0, 0];
  const lines: string[] = [];
  for (const [way, answer] of Object.entries(ways)) {
    const { same, of, parted, difference } = compare(alone, answer);
    const how =
      parted === 0 ? 'equal' : `${parted} of ${alone.choices.length} part, ${same} of ${of} tokens before that`;
    lines.push(`${way}: ${how} (logprobs within ${difference.toExponential(1)})`);
    expect(difference).toBeLessThan(MAX_LOGPROB_DIFFERENCE);
    total[0] += same;
    total[1] += of;
  }
  expect(lines).toHaveLength(4);
  console.log(
    `${name}, ${alone.choices.map(({ tokenIds }) => tokenIds.length).join('+')} tokens\n  ${lines.join('\n  ')}`,
  );
  return total;
}

describe('the same seed and the same request', () => {
  it(
    'give the same tokens and log-probabilities as the first request of a fresh service',
    async () => {
      // The one of this file has answered nothing yet.
      const other = await ownService();
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
    'give the same tokens alone, again, after a cache hit and beside 16 others, as far as the logits are the same',
    async () => {
      const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
      const { id, entity } = await client.registerModel({ project: 'seeds', name: 'adapted', baseModel: BASE });
      const adapted = `${entity}/seeds/adapted`;
      const job = await client.createTrainingJob(id, [await scoredGroup(client, adapted)], { learning_rate: 1e-4 });
      await client.waitForTraining(job.id);
      const withAdapter = { ...asks('Tell me about the tides.'), model: `${adapted}:step1`, seed: 6, max_tokens: 48 };
      const measured: Record<string, Measured> = {};
      for (const [name, request] of Object.entries({ ...REQUESTS, 'an adapter': withAdapter }))
        measured[name] = await askAlone(request);
      await askBesideOthers(Object.values(measured));
      let [numSame, numTokens] = [0, 0];
      for (const [name, measurement] of Object.entries(measured)) {
        const [same, of] = judge(name, measurement);
        numSame += same;
        numTokens += of;
      }
      console.log(`in all ${numSame} of ${numTokens} tokens are the same before anything parts`);
      expect(numSame / numTokens).toBeGreaterThan(0.85);
    },
    TIMEOUT_MS,
  );
});
