import { ConstraintError } from './constraint-error.ts';

/**
 * Larger constraints are refused with `constraint.too_large` before compiling. Within the limits llguidance was
 * measured to compile in a fraction of a second; `validate` adds a time limit.
 */
export const CONSTRAINT_LIMITS = {
  /** A JSON schema or a structural tag as JSON text. */
  specBytes: { value: 256 * 1024, unit: 'bytes of JSON text' },
  /** Objects and arrays, including the schema itself; the same as in vLLM. */
  schemaDepth: { value: 64, unit: 'levels of nesting in a JSON schema' },
  schemas: { value: 5000, unit: 'subschemas in a JSON schema' },
  /** 10,000 values compile in 0.2 s, 100,000 not at all. */
  enumValues: { value: 10_000, unit: 'values in the enums of a JSON schema' },
  /** More alternatives at one place do not fit into a row of the parser. */
  optionalProperties: { value: 450, unit: 'optional properties of one object' },
  properties: { value: 2000, unit: 'properties of one object' },
  /** Limit of one terminal; as alternatives of a rule 10,000 fail during a completion. */
  choices: { value: 10_000, unit: 'choices' },
  choiceBytes: { value: 256 * 1024, unit: 'bytes of text in all choices' },
  regexBytes: { value: 16 * 1024, unit: 'bytes of a regular expression' },
  regexDepth: { value: 100, unit: 'groups in each other in a regular expression' },
  repetitions: { value: 100_000, unit: 'repetitions in a counted quantifier' },
  grammarBytes: { value: 64 * 1024, unit: 'bytes of a grammar' },
  grammarRules: { value: 2000, unit: 'rules of a grammar' },
  grammarDepth: { value: 100, unit: 'groups in each other in a grammar' },
  /** Nested formats and arrays; a schema inside has its own limit of 64. */
  tagDepth: { value: 16, unit: 'formats in each other in a structural tag' },
  tagFormats: { value: 1000, unit: 'formats in a structural tag' },
} as const satisfies Record<string, { value: number; unit: string }>;

export type ConstraintLimit = keyof typeof CONSTRAINT_LIMITS;

/** @throws {ConstraintError} `constraint.too_large` with the limit and the value */
export function checkLimit(limit: ConstraintLimit, value: number): void {
  const { value: most, unit } = CONSTRAINT_LIMITS[limit];
  if (value <= most) return;
  throw new ConstraintError('constraint.too_large', `at most ${most} ${unit} are allowed (${limit}), got ${value}`);
}

export function byteLength(text: string): number {
  return Buffer.byteLength(text, 'utf8');
}
