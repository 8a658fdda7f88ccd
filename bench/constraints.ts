/**
 * The cost of a constraint:   node --conditions=@trainyard/source bench/constraints.ts [model.gguf]
 *
 * For each constraint: the first compilation and one from the cache, then the time of a mask and of an accept
 * over one completion. Tokens are random among the allowed ones, with a preference for short texts, to reach
 * the grammar's corners.
 */
import { Constraints, type ConstraintSpec } from '@trainyard/constraints';
import { LlamaModel } from '@trainyard/native';

import { machineLine, otherCores, sampleCpu } from './machine.ts';
import { percentile } from './percentile.ts';

const path = process.argv[2] ?? '.trainyard/models/SmolLM2-135M-Instruct.Q4_1.gguf';
const MAX_TOKENS = 200;
const ROUNDS = 5;

const FIELDS = Object.fromEntries(
  Array.from({ length: 50 }, (_, index) => [
    `field${index}`,
    [{ type: 'string', maxLength: 10 }, { type: 'integer' }, { type: 'array', items: { type: 'number' }, maxItems: 3 }][
      index % 3
    ],
  ]),
);
const SQL = String.raw`root ::= "SELECT " columns " FROM " name join? where? order? ";"
columns ::= "*" | name (", " name)*
name ::= [a-z] [a-z0-9_]{0,8}
join ::= " LEFT"? " JOIN " name " ON " name " = " name
where ::= " WHERE " condition (" AND " condition)*
condition ::= name (" = " | " < " | " LIKE ") value
order ::= " ORDER BY " name (" DESC")? " LIMIT " [0-9]{1,3}
value ::= [0-9]{1,4} | "'" [^'\n]{0,10} "'"`;
const schema = (value: unknown): ConstraintSpec => ({
  kind: 'json_schema',
  schema: value,
  whitespace: { kind: 'capped' },
  closesObjects: true,
});

const SPECS: Readonly<Record<string, ConstraintSpec>> = {
  'small schema': schema({
    type: 'object',
    properties: { name: { type: 'string' }, age: { type: 'integer' } },
    required: ['name', 'age'],
  }),
  'schema, 50 required properties': schema({ type: 'object', properties: FIELDS, required: Object.keys(FIELDS) }),
  'any object': { kind: 'json_object', whitespace: { kind: 'capped' } },
  'URL expression': {
    kind: 'regex',
    pattern: String.raw`https?://[a-z0-9-]{1,40}(\.[a-z]{2,10}){1,3}(/[\w.-]{1,60}){0,8}(\?\w{1,20}=\w{0,40})?`,
  },
  'SQL as GBNF': { kind: 'grammar', source: SQL },
  Lark: { kind: 'grammar', source: 'start: (WORD " "){3,20} NUMBER\nWORD: /[a-z]{1,12}/\nNUMBER: /[0-9]+/' },
  'structural tag': {
    kind: 'structural_tag',
    tag: { triggers: ['<call='], structures: [{ begin: '<call=go>', schema: { type: 'object' }, end: '</call>' }] },
  },
  '1,000 choices': { kind: 'choice', choices: Array.from({ length: 1000 }, (_, index) => `choice number ${index}`) },
};

const model = LlamaModel.load(path, { vocabOnly: true });
const ids = Array.from({ length: model.vocabSize }, (_, id) => id);
console.log(`${machineLine()}; ${model.vocabSize} tokens`);
const before = sampleCpu();
const constraints = new Constraints({
  vocabSize: model.vocabSize,
  tokenBytes: (id) => model.tokenBytes(id),
  isControl: (id) => model.tokenKind(id) === 'control',
  eosTokenId: model.eosTokenId!,
  endTokenIds: ids.filter((id) => model.isEndOfGeneration(id)),
});
await timed('first constraint, with its thread', () => constraints.validate({ kind: 'choice', choices: ['x'] }));
await timed('second', () => constraints.validate({ kind: 'choice', choices: ['y'] }));
console.log(constraints.version);

const rows = [];
for (const [name, spec] of Object.entries(SPECS)) rows.push(measure(name, spec));
console.table(Object.fromEntries(rows.map(({ name, ...row }) => [name, row])));
const others = otherCores(before, sampleCpu());
console.log(
  `milliseconds; ${ROUNDS} completions each, of at most ${MAX_TOKENS} tokens; others computed on ${others?.toFixed(2) ?? 'unknown'} cores meanwhile`,
);
constraints.close();
model.close();

function measure(name: string, spec: ConstraintSpec): { name: string } & Record<string, string | number> {
  const compiles: number[] = [];
  const masks: number[] = [];
  const accepts: number[] = [];
  const mask = new Uint32Array(Math.ceil(model.vocabSize / 32));
  for (let round = 0; round < ROUNDS; round++) {
    const matcher = time(compiles, () => constraints.compile(spec));
    for (let token = 0; token < MAX_TOKENS && !matcher.isStopped; token++) {
      time(masks, () => matcher.fillMask(mask));
      const allowed = ids.filter((id) => (mask[id >>> 5]! >>> (id & 31)) & 1 && !model.isEndOfGeneration(id));
      const id = allowed[(token * 7919 + round * 104729) % allowed.length];
      if (id === undefined) break;
      time(accepts, () => matcher.accept(id));
    }
    matcher.close();
  }
  return {
    name,
    tokens: accepts.length,
    compile: compiles[0]!.toFixed(2),
    cached: percentile(compiles.slice(1), 0.5).toFixed(3),
    'mask p50': percentile(masks, 0.5).toFixed(3),
    'mask p99': percentile(masks, 0.99).toFixed(3),
    'accept p50': percentile(accepts, 0.5).toFixed(3),
    'accept p99': percentile(accepts, 0.99).toFixed(3),
  };
}

function time<T>(samples: number[], run: () => T): T {
  const start = performance.now();
  const result = run();
  samples.push(performance.now() - start);
  return result;
}

async function timed(name: string, run: () => Promise<void>): Promise<void> {
  const start = performance.now();
  await run();
  console.log(`${name}: ${(performance.now() - start).toFixed(0)} ms`);
}
