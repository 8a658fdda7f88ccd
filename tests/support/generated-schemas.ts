import fc from 'fast-check';

/** Randomly optional; `requiredKeys: []` keeps fast-check from always giving all. */
const some = <T extends Record<string, unknown>>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }) =>
  fc.record(fields, { requiredKeys: [] });

const name = fc.constantFrom('name', 'kind', 'size', 'é', 'full name', 'x1');
const word = fc.constantFrom('red', 'green', 'Größe 😀', 'a "quote"', 'two\nlines', '');
const literal = fc.oneof(word, fc.integer({ min: -999, max: 999 }), fc.boolean(), fc.constant(null));
const lengths = some({ minLength: fc.integer({ min: 0, max: 4 }) }).chain((least) =>
  fc.integer({ min: 4, max: 16 }).map((maxLength) => ({ ...least, maxLength })),
);
/** Zero is within the bounds, so that every multiple has a value. */
const bounds = fc.record({ minimum: fc.integer({ min: -500, max: 0 }), maximum: fc.integer({ min: 0, max: 9999 }) });
const exclusiveBounds = fc.record({
  exclusiveMinimum: fc.integer({ min: -500, max: -1 }),
  exclusiveMaximum: fc.integer({ min: 1, max: 9999 }),
});
const PATTERNS = ['^[a-z]{2,8}$', '^\\d{3}-\\w+$', '^(?:ab|c)+$', '^[A-Z][a-z]*(?: [A-Z][a-z]*)?$', '^#[0-9a-f]{6}$'];
const FORMATS = ['date', 'time', 'date-time', 'duration', 'uuid', 'ipv4', 'ipv6', 'email', 'hostname'];
const TYPES = {
  string: { type: 'string', maxLength: 8 },
  integer: { type: 'integer', minimum: 0, maximum: 99 },
  boolean: { type: 'boolean' },
  null: { type: 'null' },
} as const;
const type = fc.constantFrom(...(Object.keys(TYPES) as (keyof typeof TYPES)[]));
const twoTypes = fc.uniqueArray(type, { minLength: 2, maxLength: 2 });

const leaf: fc.Arbitrary<object> = fc.oneof(
  lengths.map((fields) => ({ type: 'string', ...fields })),
  fc.constantFrom(...PATTERNS).map((pattern) => ({ type: 'string', pattern, maxLength: 20 })),
  fc.constantFrom(...FORMATS).map((format) => ({ type: 'string', format })),
  fc.uniqueArray(literal, { minLength: 1, maxLength: 5 }).map((values) => ({ enum: values })),
  literal.map((value) => ({ const: value })),
  fc.oneof(bounds, exclusiveBounds).map((fields) => ({ type: 'integer', ...fields })),
  fc.oneof(bounds, exclusiveBounds).map((fields) => ({ type: 'number', ...fields })),
  fc
    .tuple(bounds, fc.integer({ min: 2, max: 12 }))
    .map(([fields, multipleOf]) => ({ type: 'integer', ...fields, multipleOf })),
  fc
    .tuple(bounds, fc.constantFrom(0.5, 0.25, 0.1))
    .map(([fields, multipleOf]) => ({ type: 'number', ...fields, multipleOf })),
  fc.constant({ type: 'boolean' }),
  lengths.map((fields) => ({ type: ['string', 'null'], ...fields })),
  bounds.map((fields) => ({ anyOf: [{ type: 'integer', ...fields }, { type: 'null' }] })),
  twoTypes.map((types) => ({ oneOf: types.map((each) => TYPES[each]) })),
  fc.constant({ $ref: '#/$defs/shared' }),
  fc.constant({ $ref: '#/$defs/node' }),
);

const objectOf = (value: fc.Arbitrary<unknown>) =>
  fc.dictionary(name, value, { minKeys: 1, maxKeys: 3 }).chain((properties) =>
    fc.subarray(Object.keys(properties)).map((required) => ({
      type: 'object',
      properties: { ...properties },
      required,
      additionalProperties: false,
    })),
  );

const { schema } = fc.letrec<{ schema: object; object: object }>((tie) => ({
  object: objectOf(tie('schema')),
  schema: fc.oneof(
    { maxDepth: 4, depthSize: 'xsmall', withCrossShrink: true },
    leaf,
    tie('object'),
    fc
      .tuple(tie('schema'), fc.integer({ min: 0, max: 2 }), fc.integer({ min: 2, max: 3 }))
      .map(([items, minItems, maxItems]) => ({ type: 'array', items, minItems, maxItems })),
    fc.tuple(fc.array(tie('schema'), { minLength: 1, maxLength: 2 }), fc.boolean()).map(([prefixItems, isWhole]) => ({
      type: 'array',
      prefixItems,
      items: isWhole ? false : TYPES.integer,
      minItems: prefixItems.length,
      maxItems: prefixItems.length + (isWhole ? 0 : 2),
    })),
    fc.array(tie('schema'), { minLength: 2, maxLength: 2 }).map((anyOf) => ({ anyOf })),
    // Distinguished by a key.
    fc.tuple(tie('schema'), tie('schema')).map((values) => ({
      oneOf: values.map((value, index) => ({
        type: 'object',
        properties: { case: { const: `case ${index}` }, value },
        required: ['case', 'value'],
        additionalProperties: false,
      })),
    })),
  ),
}));

/**
 * JSON schemas up to five levels deep with the keywords that clients use, including a recursive `$ref`. Each
 * is satisfiable, and all values are bounded, so that a repetitive model reaches an end.
 */
export const boundedSchemas: fc.Arbitrary<object> = fc.tuple(objectOf(schema), leaf).map(([root, shared]) => ({
  ...root,
  $defs: {
    shared: '$ref' in shared ? TYPES.string : shared,
    node: {
      type: 'object',
      properties: {
        id: TYPES.integer,
        next: { $ref: '#/$defs/node' },
        all: { type: 'array', items: { $ref: '#/$defs/shared' }, maxItems: 2 },
      },
      required: ['id'],
      additionalProperties: false,
    },
  },
}));
