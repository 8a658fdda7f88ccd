import type { ConstraintSpec } from '../contract/constraint-spec.ts';
import { Constraints } from '../constraints.ts';
import { BYTES } from '../testing/byte-test-vocabulary.ts';
import { tokenMatcherSuite } from '../testing/token-matcher.suite.ts';

const bytes = (text: string): number[] => [...Buffer.from(text)];

const CASES: Record<string, { spec: ConstraintSpec; accepted: string[]; refused: string[] }> = {
  'a regular expression': {
    spec: { kind: 'regex', pattern: '[0-9]{2,4}' },
    accepted: ['12', '123', '0000'],
    refused: ['x', '1a', '12345'],
  },
  'a choice': {
    spec: { kind: 'choice', choices: ['red', 'green', 'great', 'ä'] },
    accepted: ['red', 'green', 'great', 'ä'],
    refused: ['b', 'ra', 'greeb', 'redd'],
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
  },
  'a grammar': {
    spec: { kind: 'grammar', source: 'root ::= "a" root "b" | "c"' },
    accepted: ['c', 'acb', 'aaacbbb'],
    refused: ['b', 'aab', 'acbb'],
  },
};

for (const [name, { spec, accepted, refused }] of Object.entries(CASES)) {
  tokenMatcherSuite(`llguidance, ${name}`, async () => {
    const constraints = await Constraints.create(BYTES);
    return {
      vocabSize: BYTES.vocabSize,
      endIds: [...BYTES.endTokenIds],
      open: () => constraints.compile(spec),
      accepted: accepted.map(bytes),
      refused: refused.map(bytes),
      close: () => constraints.close(),
    };
  });
}
