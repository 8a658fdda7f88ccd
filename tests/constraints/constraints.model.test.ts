/** Constraints with the real vocabulary: 49,152 tokens of several bytes each. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Constraints, type ConstraintSpec, type TokenMatcher } from '@trainyard/constraints';
import { LlamaModel } from '@trainyard/native';
import { testModel } from '../support/model.ts';
import { schemaSpec } from './byte-constraints.ts';
import { isValidBy } from '../support/schema-judge.ts';

let model: LlamaModel;
let constraints: Constraints;
let words: number;

beforeAll(async () => {
  model = LlamaModel.load(testModel().f16, { vocabOnly: true });
  words = Math.ceil(model.vocabSize / 32);
  const ids = Array.from({ length: model.vocabSize }, (_, id) => id);
  constraints = new Constraints({
    vocabSize: model.vocabSize,
    tokenBytes: (id) => model.tokenBytes(id),
    isControl: (id) => model.tokenKind(id) === 'control',
    eosTokenId: model.eosTokenId!,
    endTokenIds: ids.filter((id) => model.isEndOfGeneration(id)),
  });
});
afterAll(() => {
  constraints.close();
  model.close();
});

const PERSON = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 12 },
    age: { type: 'integer', minimum: 0, maximum: 150 },
    tags: { type: 'array', items: { enum: ['red', 'green', 'blue'] }, maxItems: 3 },
    mail: { type: 'string', pattern: '^[a-z]{1,8}@[a-z]{1,8}\\.com$' },
  },
  required: ['name', 'age'],
  additionalProperties: false,
};
const SQL = String.raw`root ::= "SELECT " columns " FROM " name where? ";"
columns ::= "*" | name (", " name)*
name ::= [a-z] [a-z0-9_]{0,8}
where ::= " WHERE " name " = " value
value ::= [0-9]{1,4} | "'" [^'\n]{0,10} "'"`;

function allowedIds(matcher: TokenMatcher): number[] {
  const mask = new Uint32Array(words);
  matcher.fillMask(mask);
  return Array.from({ length: model.vocabSize }, (_, id) => id).filter((id) => (mask[id >>> 5]! >>> (id & 31)) & 1);
}

function allowsText(spec: ConstraintSpec, text: string): boolean {
  const matcher = constraints.compile(spec);
  const ids = Array.from(model.tokenize(text, { addSpecial: false, parseSpecial: false }));
  const isAllowed = ids.every((id) => matcher.accept(id)) && matcher.canEnd;
  matcher.close();
  return isAllowed;
}

describe('over the vocabulary of SmolLM2', () => {
  test.each<[string, ConstraintSpec, string[], string[]]>([
    ['schema', schemaSpec(PERSON), ['{"name":"Ann","age":7}', '{\n  "name": "Ann",\n  "age": 150,\n  "tags": ["red"]\n}'], ['{"age":7}', '{"name":"Ann","age":151}', '{"name":"Ann","age":7} ']],
    ['object', { kind: 'json_object', whitespace: { kind: 'none' } }, ['{"é":[1,{}]}'], ['[1]', '{"a": 1}']],
    ['regex', { kind: 'regex', pattern: String.raw`https://[a-z]{2,9}\.(?:org|com)/\d+` }, ['https://example.com/12'], ['https://example.com/', 'http://a.b/1']],
    ['choice', { kind: 'choice', choices: ['positive', 'negative', 'Größe 😀'] }, ['positive', 'Größe 😀'], ['pos', 'neutral']],
    ['GBNF', { kind: 'grammar', source: SQL }, ['SELECT a, b FROM users WHERE id = 12;', "SELECT * FROM t WHERE a = 'x y';"], ['SELECT a FROM users', 'select * from t;']],
    ['Lark', { kind: 'grammar', source: 'start: "x" NUMBER+\nNUMBER: /[0-9]{3}/' }, ['x123456'], ['x12', 'x']],
    ['structural tag', { kind: 'structural_tag', tag: { triggers: ['<f='], structures: [{ begin: '<f=go>', schema: PERSON, end: '</f>' }] } }, ['Sure: <f=go>{"name":"A","age":1}</f> done', 'no call'], ['<f=go>{}</f>', 'x <f=']],
  ])('%s', (_name, spec, allowed, refused) => {
    expect(allowed.map((text) => [text, allowsText(spec, text)])).toEqual(allowed.map((text) => [text, true]));
    expect(refused.map((text) => [text, allowsText(spec, text)])).toEqual(refused.map((text) => [text, false]));
  }); // prettier-ignore

  test('the mask agrees with accept, token by token', () => {
    const matcher = constraints.compile(schemaSpec(PERSON));
    for (const id of model.tokenize('{"name":"An', { addSpecial: false, parseSpecial: false }))
      expect(matcher.accept(id)).toBe(true);
    const allowed = new Set(allowedIds(matcher));
    let numDifferent = 0;
    for (let id = 0; id < model.vocabSize; id += 7) {
      const clone = matcher.clone();
      if (clone.accept(id) !== allowed.has(id)) numDifferent++;
      clone.close();
    }
    console.log(
      `${allowed.size} of ${model.vocabSize} tokens allowed; mask and accept differ for ${numDifferent} of ${Math.ceil(model.vocabSize / 7)}`,
    );
    expect(numDifferent).toBe(0);
    matcher.close();
  });

  test('free text never contains a control token', () => {
    const matcher = constraints.compile({ kind: 'regex', pattern: '(?s)x.*' });
    expect(matcher.accept(model.tokenize('x', { addSpecial: false, parseSpecial: false })[0]!)).toBe(true);
    const control = allowedIds(matcher).filter((id) => model.tokenKind(id) === 'control');
    expect(control.every((id) => model.isEndOfGeneration(id))).toBe(true);
    expect(control).toContain(model.eosTokenId);
    matcher.close();
  });

  test('random completions of a schema are valid for ajv', () => {
    const isValid = isValidBy(PERSON);
    let state = 12345;
    const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
    const texts: string[] = [];
    for (let run = 0; run < 20; run++) {
      const matcher = constraints.compile(schemaSpec(PERSON));
      const bytes: Uint8Array[] = [];
      while (!matcher.isStopped) {
        const ids = allowedIds(matcher).filter((id) => !model.isEndOfGeneration(id));
        const id = ids[Math.floor(random() * ids.length)]!;
        expect(matcher.accept(id)).toBe(true);
        bytes.push(model.tokenBytes(id).slice());
      }
      matcher.close();
      texts.push(Buffer.concat(bytes).toString('utf8'));
    }
    expect(texts.filter((text) => !isValid(text))).toEqual([]);
  });
});
