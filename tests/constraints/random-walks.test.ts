/**
 * Constraints sampled to their end: at each step a random allowed token. Every complete text must satisfy the
 * constraint by a judge independent of llguidance: ajv for schemas, `RegExp` for expressions.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ConstraintError, Constraints, type ConstraintSpec } from '@trainyard/constraints';
import { BYTES, schemaSpec } from './byte-constraints.ts';
import { expressions } from '../support/generated-expressions.ts';
import { isValidBy } from '../support/schema-judge.ts';

let constraints: Constraints;
beforeAll(() => {
  constraints = new Constraints(BYTES);
});
afterAll(() => constraints.close());

/** Numbers in [0, 1) from a seed: Lehmer's generator. */
function randomNumbers(seed: number): () => number {
  let state = (seed % 2147483646) + 1;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

/** A completion, or undefined if it did not end within `maxTokens`. */
function walk(spec: ConstraintSpec, seed: number, maxTokens = 600): string | undefined {
  const random = randomNumbers(seed);
  const matcher = constraints.compile(spec);
  const mask = new Uint32Array(Math.ceil(BYTES.vocabSize / 32));
  const bytes: number[] = [];
  try {
    while (bytes.length < maxTokens) {
      matcher.fillMask(mask);
      const allowed = Array.from({ length: BYTES.vocabSize }, (_, id) => id).filter(
        (id) => (mask[id >>> 5]! >>> (id & 31)) & 1,
      );
      const canEnd = allowed.includes(BYTES.eosTokenId);
      expect(matcher.canEnd).toBe(canEnd);
      if (matcher.isStopped || (canEnd && random() < 0.3)) return Buffer.from(bytes).toString('utf8');
      // Closing characters are sometimes preferred, or strings and lists would rarely end.
      const closing = allowed.filter((id) => id === 0x22 || id === 0x5d || id === 0x7d);
      const among = closing.length > 0 && random() < 0.35 ? closing : allowed.filter((id) => id < 256);
      const token = among[Math.floor(random() * among.length)]!;
      expect(matcher.accept(token)).toBe(true);
      bytes.push(token);
    }
    return undefined;
  } finally {
    matcher.close();
  }
}

const name = fc.constantFrom('a', 'b', 'key', 'é', 'x y', '0');
const annotation = fc.constantFrom({}, { title: 't' }, { description: 'd', default: 1 });
const integerBounds = fc.record(
  { minimum: fc.integer({ min: -50, max: 0 }), maximum: fc.integer({ min: 1, max: 500 }) },
  { requiredKeys: [] },
);
const lengths = fc.record(
  { minLength: fc.integer({ min: 0, max: 2 }), maxLength: fc.integer({ min: 2, max: 6 }) },
  { requiredKeys: [] },
);
const literal = fc.oneof(
  fc.string({ maxLength: 4 }),
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
  fc.dictionary(name, fc.integer(), { maxKeys: 2 }),
);

/**
 * Schemas up to five levels deep, with the keywords that a client may use. Some of them allow nothing, or are
 * refused.
 */
const { schema: schemas } = fc.letrec<{ schema: unknown; leaf: unknown }>((tie) => ({
  leaf: fc.oneof(
    annotation.map((fields) => ({ type: 'null', ...fields })),
    fc.constant({ type: 'boolean' }),
    integerBounds.map((bounds) => ({ type: 'integer', ...bounds })),
    integerBounds.map((bounds) => ({ type: 'number', ...bounds })),
    fc.integer({ min: 1, max: 12 }).map((multipleOf) => ({ type: 'integer', multipleOf })),
    lengths.map((bounds) => ({ type: 'string', ...bounds })),
    fc
      .constantFrom('^[a-z]+$', 'x', '^\\d{3}-\\w$', '^.\\s?$', '(?:ab|c)+')
      .chain((pattern) => lengths.map((bounds) => ({ type: 'string', pattern, ...bounds }))),
    fc.constantFrom('uuid', 'ipv4', 'hostname').map((format) => ({ type: 'string', format })),
    literal.map((value) => ({ const: value })),
    fc.array(literal, { minLength: 1, maxLength: 4 }).map((values) => ({ enum: values })),
    fc.subarray(['string', 'integer', 'null', 'object'], { minLength: 1 }).map((type) => ({ type })),
    fc.constantFrom(true, {}, { type: 'object' }),
  ),
  schema: fc.oneof(
    { maxDepth: 4, depthSize: 'small', withCrossShrink: true },
    tie('leaf'),
    fc
      .record(
        {
          items: tie('schema'),
          prefixItems: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }),
          minItems: fc.integer({ min: 0, max: 2 }),
          maxItems: fc.integer({ min: 2, max: 3 }),
        },
        { requiredKeys: [] },
      )
      .map((fields) => ({ type: 'array', ...fields })),
    fc
      .record(
        {
          properties: fc.dictionary(name, tie('schema'), { maxKeys: 4 }),
          required: fc.uniqueArray(name, { maxLength: 2 }),
          additionalProperties: fc.oneof(fc.constant(false), fc.constant(false), fc.boolean(), tie('leaf')),
          patternProperties: fc.oneof(
            { weight: 4, arbitrary: fc.constant({}) },
            { weight: 1, arbitrary: tie('leaf').map((leaf) => ({ '^p': leaf })) },
          ),
          minProperties: fc.integer({ min: 0, max: 2 }),
          maxProperties: fc.integer({ min: 3, max: 4 }),
        },
        { requiredKeys: [] },
      )
      .map((fields) => ({ type: 'object', ...fields })),
    fc.array(tie('schema'), { minLength: 1, maxLength: 3 }).map((anyOf) => ({ anyOf })),
    fc.array(tie('schema'), { minLength: 2, maxLength: 2 }).map((allOf) => ({ allOf })),
    fc.tuple(tie('leaf'), tie('schema')).map(([leaf, schema]) => ({
      type: 'object',
      properties: { next: { $ref: '#/$defs/leaf' }, value: schema },
      required: ['value'],
      additionalProperties: false,
      $defs: { leaf },
    })),
  ),
}));

const NUM_SCHEMAS = 100;
const WALKS = 3;

describe('random completions', () => {
  test(`of ${NUM_SCHEMAS} generated schemas are valid for ajv`, () => {
    const counts = { compiled: 0, completed: 0, unfinished: 0, refused: {} as Record<string, number> };
    for (const [index, schema] of fc.sample(schemas, { seed: 20261121, numRuns: 4 * NUM_SCHEMAS }).entries()) {
      if (counts.compiled === NUM_SCHEMAS) break;
      const spec = schemaSpec(hoisted(schema));
      try {
        constraints.compile(spec).close();
      } catch (error) {
        if (!(error instanceof ConstraintError)) throw error;
        counts.refused[error.code] = (counts.refused[error.code] ?? 0) + 1;
        continue;
      }
      counts.compiled++;
      const isValid = isValidBy(hoisted(schema));
      for (let seed = 0; seed < WALKS; seed++) {
        const text = walk(spec, index * 1000 + seed);
        if (text === undefined) counts.unfinished++;
        else {
          counts.completed++;
          expect(isValid(text), `${JSON.stringify(schema)} allowed ${text}`).toBe(true);
        }
      }
    }
    console.log('schemas:', JSON.stringify(counts));
    expect(counts.compiled).toBe(NUM_SCHEMAS);
    expect(counts.completed).toBeGreaterThan(NUM_SCHEMAS * WALKS * 0.8);
  }, 120_000);

  test('of 50 generated expressions match them', () => {
    let numCompleted = 0;
    const counts: Record<string, number> = {};
    for (const [index, pattern] of fc.sample(expressions, { seed: 7, numRuns: 50 }).entries()) {
      const spec: ConstraintSpec = { kind: 'regex', pattern };
      const whole = new RegExp(`^(?:${pattern})$`, 'u');
      try {
        for (let seed = 0; seed < 4; seed++) {
          const text = walk(spec, index * 1000 + seed, 60);
          if (text === undefined) continue;
          numCompleted++;
          expect(whole.test(text), `/${pattern}/ allowed ${JSON.stringify(text)}`).toBe(true);
        }
      } catch (error) {
        if (!(error instanceof ConstraintError)) throw error;
        counts[`${error.code} /${pattern}/`] = 1;
      }
    }
    console.log('expressions:', numCompleted, 'completions;', 'refused:', JSON.stringify(counts));
    expect(numCompleted).toBeGreaterThan(150);
  }, 120_000);
});

/** Moves `$defs` of inner schemas to the top, which references use. */
function hoisted(schema: unknown): unknown {
  const defs: Record<string, unknown> = {};
  const copy = (node: unknown): unknown => {
    if (Array.isArray(node)) return node.map(copy);
    if (typeof node !== 'object' || node === null) return node;
    const fields = node as Record<string, unknown>;
    const own = fields['$defs'] as Record<string, unknown> | undefined;
    const id = `d${Object.keys(defs).length}`;
    if (own !== undefined) defs[id] = copy(own['leaf']);
    return Object.fromEntries(
      Object.entries(fields)
        .filter(([key]) => key !== '$defs')
        .map(([key, value]) => [
          key,
          own !== undefined && key === 'properties'
            ? copy({ ...(value as object), next: { $ref: `#/$defs/${id}` } })
            : copy(value),
        ]),
    );
  };
  const root = copy(schema);
  return typeof root === 'object' && Object.keys(defs).length > 0 ? { ...root, $defs: defs } : root;
}
