import { EngineError } from '@trainyard/backend';
import { sampleParams } from '@trainyard/backend/testing';
import { SAMPLING_FIELDS, DEFAULT_SAMPLING } from '@trainyard/protocol/fields';
import { describe, expect, test } from 'vitest';
import { COMPLETION_FIELDS } from '../testing/completion-fields.ts';
import { REQUEST_FIELDS, type RequestContext, requestFields, saltOf } from './request-fields.ts';

const CONTEXT: RequestContext = {
  contextLength: 100,
  numPromptTokens: 10,
  ends: { eosTokenId: 7, endTokenIds: new Set([7, 8]) },
  logprobsMode: 'raw',
  maxLogprobs: 20,
  vocabSize: 300,
};

const fields = (options: Parameters<typeof sampleParams>[0] = {}, context: Partial<RequestContext> = {}) =>
  requestFields(sampleParams(options), { ...CONTEXT, ...context });

function refusal(options: Parameters<typeof sampleParams>[0], context: Partial<RequestContext> = {}): string {
  try {
    fields(options, context);
  } catch (error) {
    if (error instanceof EngineError) return `${error.param}: ${error.message}`;
    throw error;
  }
  throw new Error('it was taken');
}

describe('the table', () => {
  test('has every parameter for the fields of a request', () => {
    const below = Object.values(SAMPLING_FIELDS).flatMap((row) =>
      'of' in row && row.of !== 'text' && 'name' in row ? [row.name] : [],
    );
    expect(below.filter((name) => !Object.hasOwn(REQUEST_FIELDS, name))).toEqual([]);
    const { sampling, ...params } = sampleParams();
    const names = [...Object.keys(params), ...Object.keys(sampling)];
    expect(Object.keys(REQUEST_FIELDS).toSorted()).toEqual(names.toSorted());
  });

  test('sends no field that vLLM does not know, and each under one name', () => {
    const sent = Object.values(REQUEST_FIELDS).flatMap((mapping) => (mapping.kind === 'sent' ? mapping.as : []));
    expect(sent.filter((field) => !COMPLETION_FIELDS.has(field))).toEqual([]);
    expect(new Set(sent).size).toBe(sent.length);
    const full = fields({
      n: 2,
      logprobs: 3,
      priority: 1,
      allowedTokenIds: [1],
      logprobTokenIds: [2],
      stopTokenIds: [4],
      constraint: { kind: 'json_object' },
      repetitionDetection: { maxPatternSize: 2, minPatternSize: 1, minCount: 3 },
      sampling: { temperature: 1, seed: 1n, logitBias: [[3, 1]] },
    });
    expect(Object.keys(full).toSorted()).toEqual(sent.toSorted());
  });

  test('gives the reason for each parameter that is not sent', () => {
    const others = Object.values(REQUEST_FIELDS).filter((mapping) => mapping.kind !== 'sent');
    const reasons = others.map((mapping) => ('why' in mapping ? mapping.why : mapping.by));
    expect(reasons.filter((reason) => !/\w+ \w+/.test(reason))).toEqual([]);
  });
});

describe('a request', () => {
  test('sets every field that the server would fill in', () => {
    expect(fields({ maxTokens: null, ignoreEos: false })).toEqual({
      temperature: 0,
      top_p: 1,
      top_k: 0,
      min_p: 0,
      repetition_penalty: 1,
      presence_penalty: 0,
      frequency_penalty: 0,
      n: 1,
      max_tokens: 90,
      min_tokens: 0,
      ignore_eos: false,
      stop_token_ids: [7, 8],
      cache_salt: expect.stringMatching(/^[\w-]{43}$/),
    });
  });

  test('never requests more tokens than the context allows', () => {
    expect(fields({ maxTokens: 500 })).toMatchObject({ max_tokens: 90 });
    expect(fields({ maxTokens: 5, minTokens: 5 })).toMatchObject({ max_tokens: 5, min_tokens: 5 });
  });

  test('has the tokens that end replies here, unless they are ignored', () => {
    expect(fields({ ignoreEos: false, stopTokenIds: [3, 7] })).toMatchObject({ stop_token_ids: [3, 7, 8] });
    expect(fields({ ignoreEos: true, stopTokenIds: [3] })).toMatchObject({ stop_token_ids: [3], ignore_eos: true });
    expect(fields({ ignoreEos: true })).not.toHaveProperty('stop_token_ids');
  });

  test('has a seed of 64 bits to the last digit, and none by default', () => {
    expect(fields({ sampling: { temperature: 1 } })).not.toHaveProperty('seed');
    expect(fields({ sampling: { temperature: 0, seed: 5n } })).not.toHaveProperty('seed');
    const seed = 9_007_199_254_740_993n;
    expect(JSON.stringify(fields({ sampling: { temperature: 1, seed } }))).toContain(`"seed":${seed}`);
    const last = { temperature: 1, seed: 2n ** 63n - 1n };
    expect(fields({ sampling: last })).toHaveProperty('seed');
    expect(refusal({ n: 2, sampling: last })).toMatch(/^seed: .*must leave room for 2 choices/);
  });

  test('has its salt by tenant, salt and adapter', () => {
    const base = { tenant: 'a', cacheSalt: null, adapter: null };
    const salts = [base, { ...base, tenant: 'b' }, { ...base, cacheSalt: 's' }, { ...base, adapter: 'd' }].map(saltOf);
    expect(new Set(salts).size).toBe(4);
    expect(saltOf({ ...base })).toBe(salts[0]);
    expect(saltOf({ tenant: 'a/b@c\\', cacheSalt: 'x'.repeat(128), adapter: 'y'.repeat(64) })).toMatch(/^[\w-]{43}$/);
  });
});

describe('constraints', () => {
  const outputs = (constraint: { kind: string } & Record<string, unknown>) =>
    fields({ constraint })['structured_outputs'];

  test.each([
    [{ kind: 'json_object', whitespace: { kind: 'capped' } }, { json_object: true }],
    [{ kind: 'regex', pattern: 'a+' }, { regex: 'a+' }],
    [{ kind: 'choice', choices: ['a', 'b'] }, { choice: ['a', 'b'] }],
    [{ kind: 'grammar', source: 'root ::= "a"' }, { grammar: 'root ::= "a"' }],
    [{ kind: 'structural_tag', tag: { format: {} } }, { structural_tag: '{"format":{}}' }],
    [{ kind: 'structural_tag', tag: '{"format":{}}' }, { structural_tag: '{"format":{}}' }],
  ])('%j', (constraint, expected) => {
    expect(outputs(constraint)).toEqual(expected);
  });

  test('objects are closed in the schema, and data in it stays unchanged', () => {
    const named = { properties: { type: 'string' } };
    const schema = {
      type: 'object',
      properties: {
        properties: { type: 'object', properties: { a: true } },
        open: { ...named, additionalProperties: true },
      },
      enum: [named],
    };
    const whitespace = { kind: 'capped' };
    expect(outputs({ kind: 'json_schema', schema, whitespace, closesObjects: false })).toEqual({
      json: JSON.stringify(schema),
    });
    const closed = {
      ...schema,
      additionalProperties: false,
      properties: {
        ...schema.properties,
        properties: { type: 'object', properties: { a: true }, additionalProperties: false },
      },
    };
    const said = { json: JSON.stringify(closed) };
    expect(outputs({ kind: 'json_schema', schema, whitespace, closesObjects: true })).toEqual(said);
    const text = JSON.stringify(schema);
    expect(outputs({ kind: 'json_schema', schema: text, whitespace, closesObjects: true })).toEqual(said);
  });

  test('fields that vLLM accepts and ignores are refused', () => {
    const pattern = { kind: 'json_object', whitespace: { kind: 'none' } };
    expect(refusal({ constraint: pattern })).toMatch(/^constraint: .*takes them and ignores them/);
    expect(refusal({ constraint: { kind: 'either' } })).toMatch(/^constraint: .*of the kind either/);
  });
});

describe('is refused by name', () => {
  test('fields without an equivalent in vLLM', () => {
    expect(refusal({ sampling: { topNSigma: 1 } })).toMatch(/^topNSigma: .*no such truncation/);
    expect(refusal({ bannedSequences: [[1]] })).toMatch(/^bannedSequences: /);
    expect(refusal({ beamSearch: { lengthPenalty: 1 } })).toMatch(/^beamSearch: /);
    expect(refusal({ n: 2 })).toMatch(/^n: .*must be 1 with .*temperature 0/);
  });

  test('more log-probabilities than the server gives', () => {
    expect(refusal({ logprobs: 21 })).toMatch(/^logprobs: .*at most 20 here, got 21.*--max-logprobs/);
    expect(refusal({ logprobs: -1 })).toMatch(/^logprobs: /);
    expect(fields({ logprobs: -1 }, { maxLogprobs: 300 })).toMatchObject({ logprobs: -1 });
  });

  test('log-probabilities of another distribution than the server reports, unless both are equal', () => {
    const processed = { logprobs: 0, logprobsMode: 'processed' } as const;
    expect(refusal({ ...processed, sampling: { temperature: 0.5 } })).toMatch(/^logprobsMode: .*processed_logprobs/);
    expect(fields({ ...processed, sampling: DEFAULT_SAMPLING })).toHaveProperty('logprobs', 0);
    const context = { logprobsMode: 'processed' } as const;
    expect(refusal({ logprobs: 0, sampling: { temperature: 1, topK: 5 } }, context)).toMatch(/^logprobsMode: .*raw/);
    expect(fields({ sampling: { temperature: 1, topK: 5 } }, context)).not.toHaveProperty('logprobs');
  });

  test.each(['raw_logits', 'processed_logits'] as const)('%s, also of a plain draw', (logprobsMode) => {
    for (const server of ['raw', 'processed'] as const)
      expect(refusal({ logprobs: 0, logprobsMode, sampling: DEFAULT_SAMPLING }, { logprobsMode: server })).toMatch(
        /^logprobsMode: .*returns log-probabilities/,
      );
    expect(fields({ logprobsMode })).not.toHaveProperty('logprobs');
  });
});
