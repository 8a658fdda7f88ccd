/**
 * Hostile constraints: each ends within a second, with an error or compiled, and other work continues. Prints
 * the times.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ConstraintError, Constraints, type ConstraintSpec } from '@trainyard/constraints';
import { allows, BYTES, schemaSpec } from './byte-constraints.ts';

const regex = (pattern: string): ConstraintSpec => ({ kind: 'regex', pattern });
const grammar = (source: string): ConstraintSpec => ({ kind: 'grammar', source });
const range = (length: number) => Array.from({ length }, (_, index) => index);
const named = <T>(count: number, value: (index: number) => T) =>
  Object.fromEntries(range(count).map((index) => [`p${index}`, value(index)]));
const deep = (levels: number, wrap: (inner: unknown) => unknown) =>
  range(levels).reduce<unknown>((inner) => wrap(inner), {});

/** `refused`: the required error. Others may compile, and then run for some tokens. */
const CORPUS: Readonly<Record<string, { spec: () => ConstraintSpec; refused?: RegExp }>> = {
  'nested stars, 1,000 times': { spec: () => regex('((a|aa)*){1000}') },
  'nested plus': { spec: () => regex('(a+)+b') },
  'two nested plus': { spec: () => regex('(x+x+)+y') },
  'a determinisation of 2^20 states': { spec: () => regex('(.*a){20}.{20}') },
  'a determinisation of 2^30 states': { spec: () => regex('[ab]*a[ab]{30}') },
  'repetition of repetition': { spec: () => regex('(x{1,1000}){1,1000}') },
  'repetition to the third': { spec: () => regex('((x{1,1000}){1,1000}){1,1000}') },
  'a repetition of 100,000': { spec: () => regex('[a-z]{1,100000}') },
  'a repetition of 10^9': { spec: () => regex('a{1000000000}'), refused: /too_large/ },
  '200,000 groups in each other': { spec: () => regex('('.repeat(200_000) + ')'.repeat(200_000)), refused: /too_large/ },
  '90 groups in each other, repeated': { spec: () => regex(`${'('.repeat(90)}a${'{1,9})'.repeat(90)}`) },
  'an alternation of 5,000 words': { spec: () => regex(range(2500).map((index) => `w${index}`).join('|')) },
  '$ref chain of 5,000': { spec: () => schemaSpec({ $ref: '#/$defs/p0', $defs: named(4990, (index) => ({ $ref: `#/$defs/p${index + 1}` })) }), refused: /invalid|too_large/ },
  '$ref chain of 4,000 that ends': { spec: () => schemaSpec({ $ref: '#/$defs/p0', $defs: { ...named(4000, (index) => ({ $ref: `#/$defs/p${index + 1}` })), p4000: { type: 'null' } } }) },
  '$ref fan of 2^30': { spec: () => schemaSpec({ $ref: '#/$defs/p0', $defs: { ...named(30, (index) => ({ type: 'array', prefixItems: [{ $ref: `#/$defs/p${index + 1}` }, { $ref: `#/$defs/p${index + 1}` }], minItems: 2 })), p30: { type: 'null' } } }) },
  '$ref to itself': { spec: () => schemaSpec({ $ref: '#' }), refused: /unsatisfiable/ },
  'a required key that is itself': { spec: () => schemaSpec({ type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] }), refused: /unsatisfiable/ },
  'lists of lists, 2,000 in a ring': { spec: () => schemaSpec({ $ref: '#/$defs/p0', $defs: named(2000, (index) => ({ type: 'array', items: { $ref: `#/$defs/p${(index + 1) % 2000}` }, minItems: 1 })) }), refused: /unsatisfiable/ },
  'allOf of 20 anyOf pairs': { spec: () => schemaSpec({ allOf: range(20).map((index) => ({ anyOf: [{ properties: { [`a${index}`]: { type: 'null' } } }, { properties: { [`b${index}`]: { type: 'null' } } }] })) }), refused: /too_large/ },
  'an enum of 10^5 values': { spec: () => schemaSpec({ enum: range(100_000) }), refused: /too_large/ },
  'an enum of 9,999 values': { spec: () => schemaSpec({ enum: range(9999).map((index) => `value ${index * 7919}`) }) },
  '10^5 choices': { spec: () => ({ kind: 'choice', choices: range(100_000).map(String) }), refused: /too_large/ },
  '10,000 choices': { spec: () => ({ kind: 'choice', choices: range(10_000).map((index) => `choice ${index * 31}`) }) },
  'a schema 100,000 deep': { spec: () => schemaSpec(deep(100_000, (items) => ({ items }))), refused: /too_large/ },
  'a schema 60 deep': { spec: () => schemaSpec(deep(30, (a) => ({ type: 'object', properties: { a }, required: ['a'] }))) },
  '10,000 required keys': { spec: () => schemaSpec({ type: 'object', properties: named(10_000, () => true), required: Object.keys(named(10_000, () => true)) }), refused: /too_large/ },
  '2,000 required keys': { spec: () => schemaSpec({ type: 'object', properties: named(2000, () => ({ type: 'null' })), required: Object.keys(named(2000, () => true)) }) },
  '450 optional keys': { spec: () => schemaSpec({ type: 'object', properties: named(450, () => ({ type: 'string' })), additionalProperties: false }) },
  'ten objects of 400 optional keys': { spec: () => schemaSpec({ anyOf: range(10).map((index) => ({ type: 'object', properties: named(400, (key) => ({ const: index * key })) })) }) },
  'lengths of 10^6': { spec: () => schemaSpec({ type: 'string', minLength: 1_000_000, maxLength: 1_000_000_000 }) },
  '10^9 items': { spec: () => schemaSpec({ type: 'array', minItems: 1_000_000_000 }) },
  'a multiple of a tiny number': { spec: () => schemaSpec({ type: 'number', multipleOf: 1e-300 }) },
  'patterns that must hold together': { spec: () => schemaSpec({ allOf: range(12).map((index) => ({ type: 'string', pattern: `(.*${index}){9}.{9}` })) }) },
  '200 patterns of keys': { spec: () => schemaSpec({ type: 'object', patternProperties: named(200, () => true), additionalProperties: false }) },
  'a GBNF of 100,000 parentheses': { spec: () => grammar(`root ::= ${'('.repeat(30_000)}"a"${')'.repeat(30_000)}`), refused: /too_large/ },
  'a GBNF beyond its size': { spec: () => grammar(`root ::= ${'('.repeat(100_000)}"a"${')'.repeat(100_000)}`), refused: /too_large/ },
  'a GBNF chain of 2,000 rules': { spec: () => grammar(`root ::= r0\n${range(1998).map((index) => `r${index} ::= r${index + 1}`).join('\n')}\nr1998 ::= "a"`) },
  'a GBNF with repetition to the third': { spec: () => grammar('root ::= (("a"{1,1000}){1,1000}){1,1000}') },
  'a GBNF that is ambiguous': { spec: () => grammar('root ::= root root | "a" | ""') },
  'a GBNF that recurs to the left': { spec: () => grammar('root ::= root "a" | "b"') },
  'a GBNF with no end': { spec: () => grammar('root ::= "a" root'), refused: /unsatisfiable/ },
  'a Lark of 30,000 parentheses': { spec: () => grammar(`start: ${'('.repeat(30_000)}"a"${')'.repeat(30_000)}`), refused: /invalid|too_large/ },
  'a Lark with ten nested Larks': { spec: () => grammar(`start: ${'%lark { start: '.repeat(200)}"a"${' }'.repeat(200)}`) },
  'a Lark of complements': { spec: () => grammar('start: A\nA: ~(~(/(.*a){8}.{8}/) & ~(/(.*b){8}.{8}/)) & ~/(.*c){9}/') },
  'a Lark of substrings': { spec: () => grammar(`start: %regex { "substring_chars": "${'ab'.repeat(10_000)}" }`) },
  'a structural tag of 900 tags': { spec: () => ({ kind: 'structural_tag', tag: { triggers: ['<'], structures: range(900).map((index) => ({ begin: `<${index}>`, schema: { type: 'object' }, end: '</>' })) } }) },
  'a structural tag of 100 triggers': { spec: () => ({ kind: 'structural_tag', tag: { triggers: range(100).map((index) => `<${index}:`), structures: range(100).map((index) => ({ begin: `<${index}:`, schema: { type: 'integer' }, end: '>' })) } }) },
}; // prettier-ignore

let constraints: Constraints;
beforeAll(async () => {
  constraints = new Constraints(BYTES);
  await constraints.validate(regex('warm'));
});
afterAll(() => constraints.close());

const times: { name: string; how: string; validateMs: number; compileMs: number; worstMaskMs: number }[] = [];

describe('a hostile constraint', () => {
  test.each(Object.entries(CORPUS))('%s', async (name, { spec: make, refused }) => {
    const spec = make();
    const started = performance.now();
    const error = await constraints.validate(spec).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    const validateMs = performance.now() - started;
    const run = error === undefined ? runSome(spec) : { how: '', compileMs: 0, worstMaskMs: 0 };
    const how = error instanceof ConstraintError ? error.code : run.how;
    times.push({ name, ...run, how, validateMs });
    expect(error === undefined || error instanceof ConstraintError, String(error)).toBe(true);
    if (refused !== undefined) expect(how).toMatch(refused);
    expect(allows(constraints, regex('a+b'), 'aab')).toBe(true);
  });

  test('does not slow down other work', async () => {
    const innocent = constraints.compile(schemaSpec({ type: 'array', items: { type: 'integer' } }));
    for (const byte of Buffer.from('[12')) expect(innocent.accept(byte)).toBe(true);
    const before = constraints.stats.numInstances;
    // Compiled here without validation, so that it traps in this thread's instance.
    const chain = {
      $ref: '#/$defs/p0',
      $defs: { ...named(4900, (index) => ({ $ref: `#/$defs/p${index + 1}` })), p4900: { type: 'null' } },
    };
    expect(() => constraints.compile(schemaSpec(chain))).toThrow(
      expect.objectContaining({ code: 'constraint.too_large' }),
    );
    for (const byte of Buffer.from(',3]')) expect(innocent.accept(byte)).toBe(true);
    expect(innocent.isStopped).toBe(true);
    innocent.close();
    expect(constraints.stats.numInstances).toBe(before + 1);
  });

  test('leaves capacity for later requests', () => {
    // 2^40 states: each completion finds new ones, and together they reach the limit of the shared lexer.
    const spec = regex('([ab]*a[ab]{40}c)*');
    const before = constraints.stats.numRenewed;
    const mask = new Uint32Array(Math.ceil(BYTES.vocabSize / 32));
    let state = 1;
    for (let completion = 0; completion < 80 && constraints.stats.numRenewed === before; completion++) {
      const matcher = constraints.compile(spec);
      for (let token = 0; token < 400; token++) {
        matcher.fillMask(mask);
        state = (state * 48271) % 2147483647;
        expect(matcher.accept(state % 2 === 0 ? 0x61 : 0x62)).toBe(true);
      }
      matcher.close();
    }
    expect(constraints.stats.numRenewed).toBe(before + 1);
  });

  afterAll(() => {
    console.log(
      times
        .map(
          ({ name, how, validateMs, compileMs, worstMaskMs }) =>
            `${name.padEnd(36)} ${how.padEnd(44)} ${ms(validateMs)} ${ms(compileMs)} ${ms(worstMaskMs)}`,
        )
        .join('\n'),
    );
    console.log('columns: validate, compile here, worst mask (ms);', JSON.stringify(constraints.stats));
  });
});

function ms(value: number): string {
  return value.toFixed(1).padStart(8);
}

/** Compiles here and accepts 40 tokens, each the last allowed one. */
function runSome(spec: ConstraintSpec): { how: string; compileMs: number; worstMaskMs: number } {
  const started = performance.now();
  const matcher = constraints.compile(spec);
  const compileMs = performance.now() - started;
  const mask = new Uint32Array(Math.ceil(BYTES.vocabSize / 32));
  let worstMaskMs = 0;
  let how = 'compiled';
  try {
    for (let tokens = 0; tokens < 40 && !matcher.isStopped; tokens++) {
      const maskStarted = performance.now();
      matcher.fillMask(mask);
      worstMaskMs = Math.max(worstMaskMs, performance.now() - maskStarted);
      const token = range(256).findLast((id) => (mask[id >>> 5]! >>> (id & 31)) & 1);
      if (token === undefined) break;
      matcher.accept(token);
    }
  } catch (error) {
    if (!(error instanceof ConstraintError)) throw error;
    how = `compiled, then ${error.code}`;
  } finally {
    matcher.close();
  }
  return { how, compileMs, worstMaskMs };
}
