import type { ConstraintSpec } from '../contract/constraint-spec.ts';
import { Constraints } from '../constraints.ts';
import { BYTES } from '../testing/byte-test-vocabulary.ts';
import { tokenMatcherSuite } from '../testing/token-matcher.suite.ts';

const bytes = (text: string): number[] => [...Buffer.from(text)];

const CASES: Record<string, { spec: ConstraintSpec; accepted: string[]; refused: string[]; unfinished: string[] }> = {
  'a regular expression': {
    spec: { kind: 'regex', pattern: '[0-9]{2,4}' },
    accepted: ['12', '123', '0000'],
    refused: ['x', '1a', '12345'],
    unfinished: ['', '7'],
  },
  'a choice': {
    spec: { kind: 'choice', choices: ['red', 'green', 'great', 'ä'] },
    accepted: ['red', 'green', 'great', 'ä'],
    refused: ['b', 'ra', 'greeb', 'redd'],
    unfinished: ['', 're', 'gre'],
  },
  'a JSON schema': {
    spec: {
      kind: 'json_schema',
      schema: { type: 'object', properties: { age: { type: 'integer' } }, required: ['age'] },
      whitespace: { kind: 'capped' },
      closesObjects: true,
    },
    accepted: ['{"age":7}', '{"age": -12}'],
    refused: ['[', '{}', '{"agf', '{"age":"', '{"age":7}}'],
    unfinished: ['', '{"age"', '{"age":', '{"age":7'],
  },
  'a grammar': {
    spec: { kind: 'grammar', source: 'root ::= "a" root "b" | "c"' },
    accepted: ['c', 'acb', 'aaacbbb'],
    refused: ['b', 'aab', 'acbb'],
    unfinished: ['', 'aa', 'aac'],
  },
  'a Lark grammar': {
    spec: { kind: 'grammar', source: 'start: WORD ("," WORD)*\nWORD: /[a-z]+/' },
    accepted: ['a', 'ab,c', 'x,y,zz'],
    refused: [',', 'A', 'a,,'],
    unfinished: ['', 'a,'],
  },
  'a structural tag': {
    spec: {
      kind: 'structural_tag',
      tag: {
        structures: [{ begin: '<n>', schema: { type: 'integer' }, end: '</n>' }],
        triggers: ['<n>'],
      },
    },
    accepted: ['', 'no tag', 'a<n>12</n>b'],
    refused: ['<n>x', '<n>1</m'],
    unfinished: ['<n>', 'a<n>12', 'a<n>12</n'],
  },
  'one of two': {
    spec: {
      kind: 'either',
      options: [
        { kind: 'choice', choices: ['yes', 'no'] },
        { kind: 'regex', pattern: '[0-9]{2}' },
      ],
    },
    accepted: ['yes', 'no', '42'],
    refused: ['a', 'ye4', '1n'],
    unfinished: ['', 'y', '4'],
  },
};

for (const [name, { spec, accepted, refused, unfinished }] of Object.entries(CASES)) {
  tokenMatcherSuite(`llguidance, ${name}`, async () => {
    const constraints = new Constraints(BYTES);
    return {
      vocabSize: BYTES.vocabSize,
      endIds: [...BYTES.endTokenIds],
      open: () => constraints.compile(spec),
      accepted: accepted.map(bytes),
      refused: refused.map(bytes),
      unfinished: unfinished.map(bytes),
      close: () => constraints.close(),
    };
  });
}
