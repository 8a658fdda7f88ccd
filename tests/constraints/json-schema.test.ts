/**
 * Texts that a schema allows, keyword by keyword, judged by ajv.
 *
 * Every text of `allows` must be valid and every text of `refuses` invalid for ajv, so that mistakes in this
 * table are detected. `misses` are valid texts that are refused: known gaps. A schema with `error` is refused
 * as a whole.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Constraints, type ConstraintErrorCode } from '@trainyard/constraints';
import { allows, BYTES, schemaSpec } from './byte-constraints.ts';
import { isValidBy } from '../support/schema-judge.ts';

interface Case {
  readonly schema: unknown;
  readonly allows?: readonly string[];
  readonly refuses?: readonly string[];
  readonly misses?: readonly string[];
  readonly error?: ConstraintErrorCode;
  /** Draft for ajv; default 2020-12. */
  readonly draft?: 7;
}

const TREE = {
  $ref: '#/$defs/node',
  $defs: { node: { type: 'object', properties: { n: { type: 'integer' }, kids: { type: 'array', items: { $ref: '#/$defs/node' } } }, required: ['n'], additionalProperties: false } },
}; // prettier-ignore

const CASES: Readonly<Record<string, Case>> = {
  'true': { schema: true, allows: ['null', '[]', '{"a":[1,"b"]}', '-0', '1e5', '"\\u00e9\\ud83d\\ude00"'], refuses: ['01', '"\t"', '{"a"}'], misses: ['"\\/"'] },
  'type null': { schema: { type: 'null' }, allows: ['null'], refuses: ['0', 'false', ''] },
  'type boolean': { schema: { type: 'boolean' }, allows: ['true', 'false'], refuses: ['null', '1', '"true"'] },
  'type integer': { schema: { type: 'integer' }, allows: ['0', '-7', '12345678901234567890'], refuses: ['1.5', '01', '"1"'], misses: ['1e3', '2.0'] },
  'type number': { schema: { type: 'number' }, allows: ['0', '-1.25', '1e-7', '2E+3'], refuses: ['.5', '1.', '+1', 'NaN'] },
  'type string': { schema: { type: 'string' }, allows: ['""', '"é\\n\\"\\\\"', '"\\u00e9"', '"😀"'], refuses: ['a', '"\n"', '"\\x"'] },
  'type array': { schema: { type: 'array' }, allows: ['[]', '[1,"a",[]]', '[ 1, 2 ]'], refuses: ['{}', '[1,]'] },
  'type object': { schema: { type: 'object' }, allows: ['{}', '{"a":1}'], refuses: ['[]', '{"a":1,}'] },
  'type list': { schema: { type: ['string', 'null'] }, allows: ['"a"', 'null'], refuses: ['1', '[]'] },
  'const string': { schema: { const: 'a"\n' }, allows: ['"a\\"\\n"'], refuses: ['"a"'] },
  'const with control characters': { schema: { const: 'a\u0001\u007f' }, allows: ['"a\\u0001\\u007f"'], refuses: ['"a"'], misses: ['"a\\u0001\u007f"'] },
  'control characters with other keys': { schema: { properties: { k: { const: 'x\u0002y' } } }, error: 'constraint.unsupported' },
  'a pattern of control characters': { schema: { type: 'string', pattern: '^a\\x01[\\x02\\x03]$' }, allows: ['"a\\u0001\\u0003"'], refuses: ['"a"', '"a\\u0001"'] },
  'const number': { schema: { const: 1.5 }, allows: ['1.5'], refuses: ['1', '1.6', '"1.5"'] },
  'const object': { schema: { const: { a: [1, null], b: {} } }, allows: ['{"a":[1,null],"b":{}}'], refuses: ['{"a":[1]}', '{}'] },
  'const in an open object': { schema: { properties: { k: { const: 'x\n"y' }, p: { pattern: '^[^a]$' } }, type: 'object', required: ['k'] }, allows: ['{"k":"x\\n\\"y"}', '{"k":"x\\n\\"y","p":"é","l":1}'], refuses: ['{"k":"xy"}', '{"k":"x\\n\\"y","p":"a"}'], misses: ['{"k":"x\\n\\"y","p":"\\u0001"}'] },
  'enum': { schema: { enum: ['a', 1, null, [true], { x: 0.5 }] }, allows: ['"a"', '1', 'null', '[true]', '{"x":0.5}'], refuses: ['"b"', '2', '[false]'] },
  'enum and type': { schema: { type: 'string', enum: ['a', 'b', 3] }, allows: ['"a"'], refuses: ['3', '"c"'] },
  'minimum, maximum': { schema: { type: 'integer', minimum: -3, maximum: 120 }, allows: ['-3', '0', '99', '120'], refuses: ['-4', '121', '1000'] },
  'exclusive bounds': { schema: { type: 'integer', exclusiveMinimum: 0, exclusiveMaximum: 3 }, allows: ['1', '2'], refuses: ['0', '3'] },
  'number bounds': { schema: { type: 'number', minimum: 0.5, maximum: 2.25 }, allows: ['0.5', '1', '1.999', '2.25'], refuses: ['0.4', '2.3', '3'] },
  'number bound below only': { schema: { type: 'number', minimum: 10 }, allows: ['10', '10.5', '999'], refuses: ['9.9', '-11'] },
  'multipleOf': { schema: { type: 'integer', multipleOf: 7 }, allows: ['0', '14', '-21', '700'], refuses: ['1', '15'] },
  'multipleOf a fraction': { schema: { type: 'number', multipleOf: 0.05 }, allows: ['0.05', '1.10', '3'], refuses: ['0.06', '1.01'] },
  'multipleOf and bounds': { schema: { type: 'integer', multipleOf: 5, minimum: 11, maximum: 26 }, allows: ['15', '20', '25'], refuses: ['10', '16', '30'] },
  'minLength, maxLength': { schema: { type: 'string', minLength: 2, maxLength: 3 }, allows: ['"ab"', '"éöü"', '"😀😀"', '"a\\n"', '"\\ud83d\\ude00b"'], refuses: ['"a"', '"abcd"'] },
  'pattern, anchored': { schema: { type: 'string', pattern: '^[a-c]{2}$' }, allows: ['"ab"'], refuses: ['"abc"', '"ad"'] },
  'pattern, not anchored': { schema: { type: 'string', pattern: 'foo' }, allows: ['"foo"', '"xfoox"'], refuses: ['"fo"', '""'] },
  'pattern with classes of ECMAScript': { schema: { type: 'string', pattern: '^\\d\\w\\s.$' }, allows: ['"1a x"', '"9_\u00a0é"'], refuses: ['"٣a x"', '"1é x"', '"1a \u2028"'] },
  'pattern with an alternative': { schema: { type: 'string', pattern: '^(?:a|b+)$|^c' }, allows: ['"a"', '"bb"', '"cxx"'], refuses: ['"ab"', '"xc"'] },
  'pattern and length': { schema: { type: 'string', pattern: '^a+$', minLength: 2, maxLength: 4 }, allows: ['"aa"', '"aaaa"'], refuses: ['"a"', '"aaaaa"'] },
  'pattern of quotes': { schema: { type: 'string', pattern: '^"\\\\$' }, allows: ['"\\"\\\\"'], refuses: ['"\\\\"'] },
  'look-ahead': { schema: { type: 'string', pattern: '^(?=a)' }, error: 'constraint.unsupported' },
  'format date-time': { schema: { type: 'string', format: 'date-time' }, allows: ['"2024-02-29T12:30:00Z"', '"2024-01-01t00:00:00.5+01:00"'], refuses: ['"2024-13-01T00:00:00Z"', '"2024-01-01"'] },
  'format date': { schema: { type: 'string', format: 'date' }, allows: ['"2024-12-31"'], refuses: ['"2024-02-30"', '"24-01-01"'] },
  'format time': { schema: { type: 'string', format: 'time' }, allows: ['"23:59:59Z"'], refuses: ['"24:00:00Z"', '"12:00"'] },
  'format uuid': { schema: { type: 'string', format: 'uuid' }, allows: ['"123e4567-e89b-12d3-a456-426614174000"'], refuses: ['"123e4567"'] },
  'format email': { schema: { type: 'string', format: 'email' }, allows: ['"a.b@example.com"'], refuses: ['"a.example.com"', '"@x"'] },
  'format ipv4': { schema: { type: 'string', format: 'ipv4' }, allows: ['"127.0.0.1"'], refuses: ['"256.0.0.1"', '"1.2.3"'] },
  'format ipv6': { schema: { type: 'string', format: 'ipv6' }, allows: ['"::1"', '"2001:db8::8a2e:370:7334"'], refuses: ['"12345::"', '"1::2::3"'] },
  'format hostname': { schema: { type: 'string', format: 'hostname' }, allows: ['"example.com"'], refuses: ['"-a.com"', '"a..b"'] },
  'format uri': { schema: { type: 'string', format: 'uri' }, allows: ['"https://a.b/c?d=1#e"', '"mailto:a@b.c"'], refuses: ['"no scheme"', '"//a/b"'] },
  'format duration': { schema: { type: 'string', format: 'duration' }, allows: ['"P3Y6M4D"', '"PT1H"'], refuses: ['"3Y"', '"P"'] },
  'unknown format': { schema: { type: 'string', format: 'colour' }, allows: ['"red"', '""'], refuses: ['1'] },
  'a format that is known and not enforced': { schema: { type: 'string', format: 'iri' }, error: 'constraint.unsupported' },
  'formats of pydantic that name the purpose of a string': { schema: { type: 'array', prefixItems: [{ type: 'string', format: 'path' }, { type: 'string', format: 'binary' }], items: false, minItems: 2 }, allows: ['["/a b","x"]'], refuses: ['[1,2]'] },
  'format uuid4': { schema: { type: 'string', format: 'uuid4' }, allows: ['"123e4567-e89b-42d3-a456-426614174000"'], misses: ['"123e4567-e89b-12d3-a456-426614174000"', '"123e4567-e89b-42d3-1456-426614174000"'], refuses: ['1'] },
  'uniqueItems of listed values': { schema: { type: 'array', uniqueItems: true, items: { $ref: '#/$defs/c' }, minItems: 1, maxItems: 2, $defs: { c: { type: 'string', enum: ['a', 'b', 'c'] } } }, allows: ['["a"]', '["c","a"]'], refuses: ['[]', '["a","a"]', '["a","b","c"]', '["d"]'] },
  'uniqueItems of one at most': { schema: { type: 'array', uniqueItems: true, items: { type: 'integer' }, maxItems: 1 }, allows: ['[]', '[7]'], refuses: ['[1,1]', '["a"]'] },
  'propertyNames that are listed': { schema: { type: 'object', propertyNames: { $ref: '#/$defs/k' }, additionalProperties: { type: 'integer' }, $defs: { k: { enum: ['a', 'b'] } } }, allows: ['{}', '{"b":1}', '{"a":1,"b":2}'], refuses: ['{"c":1}', '{"a":"x"}'] },
  'propertyNames of a pattern': { schema: { type: 'object', propertyNames: { pattern: '^[a-z]+$' }, additionalProperties: { type: 'integer' } }, allows: ['{}', '{"ab":1}'], refuses: ['{"A":1}', '{"a":"x"}'] },
  'items': { schema: { type: 'array', items: { type: 'integer' } }, allows: ['[]', '[1,2]'], refuses: ['["a"]', '[1,null]'] },
  'minItems, maxItems': { schema: { type: 'array', items: { type: 'integer' }, minItems: 1, maxItems: 3 }, allows: ['[1]', '[1,2,3]'], refuses: ['[]', '[1,2,3,4]'] },
  'prefixItems': { schema: { type: 'array', prefixItems: [{ type: 'integer' }, { type: 'string' }], minItems: 2, items: false }, allows: ['[1,"a"]'], refuses: ['[1]', '["a",1]', '[1,"a",2]'] },
  'prefixItems, open': { schema: { type: 'array', prefixItems: [{ type: 'integer' }] }, allows: ['[]', '[1]', '[1,"x",null]'], refuses: ['["a"]'] },
  'prefixItems and items': { schema: { type: 'array', prefixItems: [{ const: 1 }], items: { type: 'boolean' }, minItems: 2 }, allows: ['[1,true]', '[1,true,false]'], refuses: ['[1]', '[1,2]'] },
  'items as a list': { schema: { type: 'array', items: [{ type: 'integer' }], additionalItems: { type: 'string' } }, draft: 7, allows: ['[]', '[1,"a","b"]'], refuses: ['["a"]', '[1,2]'] },
  'uniqueItems': { schema: { type: 'array', uniqueItems: true }, error: 'constraint.unsupported' },
  'uniqueItems: false': { schema: { type: 'array', uniqueItems: false }, allows: ['[1,1]'], refuses: ['{}'] },
  'contains': { schema: { type: 'array', contains: { const: 1 } }, error: 'constraint.unsupported' },
  'unevaluatedItems': { schema: { type: 'array', unevaluatedItems: false }, error: 'constraint.unsupported' },
  'properties': { schema: { type: 'object', properties: { a: { type: 'integer' }, b: { type: 'string' } } }, allows: ['{}', '{"a":1}', '{"a":1,"b":"x","c":null}'], refuses: ['{"a":"x"}', '{"b":1}'], misses: ['{"b":"x","a":1}'] },
  'required': { schema: { type: 'object', properties: { a: {}, b: {} }, required: ['b'] }, allows: ['{"b":1}', '{"a":1,"b":2}'], refuses: ['{}', '{"a":1}'] },
  'required, not declared': { schema: { type: 'object', properties: { a: { type: 'integer' } }, required: ['a', 'z'] }, allows: ['{"a":1,"z":null}'], refuses: ['{"a":1}', '{"z":1}'] },
  'additionalProperties: false': { schema: { type: 'object', properties: { a: {} }, additionalProperties: false }, allows: ['{}', '{"a":1}'], refuses: ['{"b":1}', '{"a":1,"b":1}'] },
  'additionalProperties': { schema: { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: { type: 'integer' } }, allows: ['{"a":"x","b":1,"c":2}'], refuses: ['{"a":1}', '{"b":"x"}', '{"\\u0061":1}'] },
  'a key spelled with escapes': { schema: { type: 'object', properties: { 'a/é': { type: 'string' } } }, allows: ['{"a/é":"x"}'], refuses: ['{"a/\\u00e9":1}', '{"a\\/é":1}', '{"\\u0061/é":1}'] },
  'keys with odd characters': { schema: { type: 'object', properties: { 'a "\n\\': { type: 'null' }, '': { type: 'null' } }, required: ['a "\n\\', ''], additionalProperties: false }, allows: ['{"a \\"\\n\\\\":null,"":null}'], refuses: ['{}'] },
  'patternProperties': { schema: { type: 'object', patternProperties: { '^x': { type: 'integer' } }, additionalProperties: false }, allows: ['{}', '{"x1":1,"xy":2}'], refuses: ['{"x":"a"}', '{"y":1}'] },
  'patternProperties beside others': { schema: { type: 'object', properties: { xa: { minimum: 3 } }, patternProperties: { '^x': { type: 'integer' } } }, allows: ['{"xa":3,"xb":1,"c":"d"}'], refuses: ['{"xa":2}', '{"xb":"a"}', '{"\\u0078b":"a"}'] },
  'patternProperties that overlap': { schema: { type: 'object', patternProperties: { '^x': { type: 'integer' }, 'y$': { type: 'string' } } }, error: 'constraint.unsupported' },
  'propertyNames of another kind': { schema: { type: 'object', propertyNames: { type: 'string', format: 'email' } }, error: 'constraint.unsupported' },
  'propertyNames of a length': { schema: { type: 'object', propertyNames: { type: 'string', minLength: 2, maxLength: 3 } }, allows: ['{}', '{"ab":1}', '{"éöü":1}'], refuses: ['{"a":1}', '{"abcd":1}'] },
  'propertyNames false': { schema: { type: 'object', propertyNames: false }, allows: ['{}'], refuses: ['{"a":1}'] },
  ...Object.fromEntries([true, {}, { type: 'string' }, { type: ['string', 'null'] }, { type: 'string', title: 'K', minLength: 0 }, { anyOf: [{ const: 'a' }, { type: 'string' }] }, { $ref: '#/$defs/k' }].map((propertyNames) => [
    `propertyNames ${JSON.stringify(propertyNames)}`,
    { schema: { type: 'object', properties: { v: { type: 'object', propertyNames, additionalProperties: { type: 'integer' } } }, required: ['v'], propertyNames, $defs: { k: { type: 'string' } } }, allows: ['{"v":{"a":1,"é b":2}}', '{"v":{},"w":null}'], refuses: ['{"v":{"a":"x"}}', '{}'] },
  ])),
  'minProperties 1': { schema: { type: 'object', minProperties: 1 }, allows: ['{"a":1}', '{"a":1,"b":2}'], refuses: ['{}'] },
  'minProperties 2': { schema: { type: 'object', minProperties: 2 }, error: 'constraint.unsupported' },
  'minProperties within required': { schema: { type: 'object', required: ['a', 'b'], minProperties: 3 }, allows: ['{"a":1,"b":1,"c":1}'], refuses: ['{"a":1,"b":1}', '{"a":1,"b":1,"\\u0061":1}'] },
  'maxProperties': { schema: { type: 'object', additionalProperties: { type: 'integer' }, maxProperties: 1 }, allows: ['{}', '{"a":1}'], refuses: ['{"a":1,"b":2}'] },
  'maxProperties with optional ones': { schema: { type: 'object', properties: { a: {}, b: {} }, maxProperties: 1 }, error: 'constraint.unsupported' },
  'exactly one of the properties': { schema: { type: 'object', properties: { a: { type: 'integer' }, b: { type: 'integer' } }, additionalProperties: false, minProperties: 1, maxProperties: 1 }, allows: ['{"a":1}', '{"b":1}'], refuses: ['{}', '{"a":1,"b":1}'] },
  'dependentRequired': { schema: { type: 'object', dependentRequired: { a: ['b'] } }, error: 'constraint.unsupported' },
  'dependencies': { schema: { type: 'object', dependencies: { a: ['b'] } }, error: 'constraint.unsupported' },
  'unevaluatedProperties': { schema: { type: 'object', unevaluatedProperties: false }, error: 'constraint.unsupported' },
  'anyOf': { schema: { anyOf: [{ type: 'integer' }, { type: 'string', maxLength: 1 }] }, allows: ['1', '"a"'], refuses: ['"ab"', 'null'] },
  'anyOf beside keywords': { schema: { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'], anyOf: [{ properties: { b: { const: 1 } }, required: ['b'] }, { properties: { b: { const: 2 } }, required: ['b'] }] }, allows: ['{"a":1,"b":1}', '{"a":0,"b":2}'], refuses: ['{"a":1}', '{"a":1,"b":3}', '{"b":1}'] },
  'oneOf, disjoint': { schema: { oneOf: [{ type: 'integer' }, { type: 'null' }] }, allows: ['1', 'null'], refuses: ['"a"'] },
  'oneOf with a key that distinguishes': { schema: { oneOf: [{ type: 'object', properties: { k: { const: 'a' } }, required: ['k'] }, { type: 'object', properties: { k: { const: 'b' }, n: { type: 'integer' } }, required: ['k'] }] }, allows: ['{"k":"a"}', '{"k":"b","n":1}'], refuses: ['{"k":"c"}', '{"k":"b","n":"x"}'] },
  'oneOf that may overlap': { schema: { oneOf: [{ type: 'integer' }, { type: 'number', minimum: 3 }] }, error: 'constraint.unsupported' },
  'allOf': { schema: { allOf: [{ type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] }, { properties: { a: { minimum: 5 }, b: { type: 'string' } }, required: ['b'] }] }, allows: ['{"a":5,"b":"x"}'], refuses: ['{"a":4,"b":"x"}', '{"a":5}'] },
  'allOf that clashes': { schema: { allOf: [{ type: 'string' }, { type: 'integer' }] }, error: 'constraint.unsatisfiable' },
  'not': { schema: { not: { type: 'string' } }, error: 'constraint.unsupported' },
  'if, then, else': { schema: '{"if":{"type":"string"},"then":{"minLength":2}}', error: 'constraint.unsupported' },
  '$ref': { schema: { type: 'array', items: { $ref: '#/$defs/p' }, $defs: { p: { type: 'integer', minimum: 0 } } }, allows: ['[0,5]'], refuses: ['[-1]', '["a"]'] },
  '$ref beside keywords': { schema: { $ref: '#/$defs/s', maxLength: 2, $defs: { s: { type: 'string', minLength: 1 } } }, allows: ['"a"', '"ab"'], refuses: ['""', '"abc"', '1'] },
  '$ref to definitions': { schema: { $ref: '#/definitions/s', definitions: { s: { type: 'null' } } }, allows: ['null'], refuses: ['1'] },
  '$ref to an anchor': { schema: { $ref: '#s', $defs: { x: { $anchor: 's', type: 'null' } } }, allows: ['null'], refuses: ['1'] },
  '$ref that recurs': { schema: TREE, allows: ['{"n":1}', '{"n":1,"kids":[{"n":2,"kids":[]},{"n":3}]}'], refuses: ['{"kids":[]}', '{"n":1,"kids":[{}]}'] },
  '$ref to nothing': { schema: { $ref: '#/$defs/none' }, error: 'constraint.invalid' },
  '$ref to elsewhere': { schema: { $ref: 'https://json-schema.org/draft/2020-12/schema' }, error: 'constraint.unsupported' },
  '$ref to itself': { schema: { $ref: '#' }, error: 'constraint.unsatisfiable' },
  'an object that requires itself': { schema: { type: 'object', properties: { n: { $ref: '#' } }, required: ['n'] }, error: 'constraint.unsatisfiable' },
  'an object that requires itself, or null': { schema: { type: 'object', properties: { n: { anyOf: [{ $ref: '#' }, { type: 'null' }] } }, required: ['n'] }, allows: ['{"n":{"n":null}}'], refuses: ['{}', '{"n":{}}'] },
  'a list of at least one of itself': { schema: { type: 'array', items: { $ref: '#' }, minItems: 1 }, error: 'constraint.unsatisfiable' },
  'a list whose second item is itself': { schema: { type: 'array', prefixItems: [{ type: 'integer' }, { $ref: '#' }], minItems: 2 }, error: 'constraint.unsatisfiable' },
  'a list whose second item may be itself': { schema: { type: 'array', prefixItems: [{ type: 'integer' }, { $ref: '#' }], minItems: 1, items: false }, allows: ['[1]', '[1,[2]]'], refuses: ['[]', '[1,2]'] },
  'objects that require each other': { schema: { $ref: '#/$defs/a', $defs: { a: { type: 'object', properties: { b: { $ref: '#/$defs/b' } }, required: ['b'] }, b: { type: 'object', properties: { a: { $ref: '#/$defs/a' } }, required: ['a'] } } }, error: 'constraint.unsatisfiable' },
  'a key required by another schema that is itself': { schema: { $ref: '#/$defs/a', $defs: { base: { type: 'object', properties: { n: { $ref: '#/$defs/a' } } }, a: { allOf: [{ $ref: '#/$defs/base' }, { required: ['n'] }] } } }, error: 'constraint.unsatisfiable' },
  'alternatives that all need themselves': { schema: { anyOf: [{ type: 'array', items: { $ref: '#' }, minItems: 1 }, { type: 'object', additionalProperties: { $ref: '#' }, required: ['x'] }] }, error: 'constraint.unsatisfiable' },
  'an end of another type': { schema: { type: 'object', oneOf: [{ type: 'object', properties: { x: { $ref: '#' } }, required: ['x'] }, { type: 'null' }] }, error: 'constraint.unsatisfiable' },
  'keys of a pattern that are itself': { schema: { type: 'object', patternProperties: { '^a': { $ref: '#' } }, additionalProperties: false, required: ['ab'] }, error: 'constraint.unsatisfiable' },
  'at least one key that is itself': { schema: { type: 'object', additionalProperties: { $ref: '#' }, minProperties: 1 }, error: 'constraint.unsatisfiable' },
  'an optional key that needs itself': { schema: { type: 'object', properties: { n: { $ref: '#/$defs/x' } }, $defs: { x: { type: 'object', properties: { x: { $ref: '#/$defs/x' } }, required: ['x'] } } }, error: 'constraint.unsatisfiable' },
  'keys that need no object': { schema: { properties: { n: { $ref: '#' } }, required: ['n'] }, allows: ['1', '{"n":2}'], refuses: ['{}'] },
  'an optional key that contradicts itself': { schema: { type: 'object', properties: { a: { type: 'string', allOf: [{ type: 'number' }] } } }, allows: ['{}', '{"b":1}'], refuses: ['{"a":"x"}', '{"a":1}'] },
  'a definition that is not used': { schema: { type: 'null', $defs: { x: { not: {} }, y: { $ref: '#/$defs/y' } } }, allows: ['null'], refuses: ['1'] },
  '$ref to a place that is no definition': { schema: { type: 'object', properties: { a: { type: 'integer' }, b: { $ref: '#/properties/a' } }, required: ['b'] }, allows: ['{"b":1}'], refuses: ['{"b":"x"}'] },
  '$ref from a schema with its own $id': { schema: { $ref: '#/$defs/x', $defs: { x: { $id: 'https://example.com/x', type: 'array', items: { $ref: '#/$defs/y' }, $defs: { y: { type: 'integer' } } }, y: { type: 'string' } } }, allows: ['[1]'], refuses: ['["x"]'] },
  'bounds without a type': { schema: { minimum: 5, maxLength: 1 }, allows: ['5', '"a"', 'null', '[]'], refuses: ['4', '"ab"'] },
  'bounds that cross': { schema: { type: 'integer', minimum: 5, maximum: 4 }, error: 'constraint.unsatisfiable' },
  'lengths that cross': { schema: { type: 'string', minLength: 5, maxLength: 4 }, error: 'constraint.unsatisfiable' },
  'const against type': { schema: { type: 'string', const: 5 }, error: 'constraint.unsatisfiable' },
  'unknown type': { schema: { type: 'text' }, error: 'constraint.invalid' },
  'unknown keywords and annotations': { schema: { type: 'integer', title: 't', description: 'd', default: 'x', examples: [1], 'x-order': 3, $comment: 'c' }, allows: ['1'], refuses: ['"x"'] },
  'x-guidance of a client': { schema: { type: 'array', items: { type: 'integer' }, 'x-guidance': { whitespace_flexible: false, lenient: true, item_separator: ';' } }, allows: ['[1, 2]'], refuses: ['[1;2]', '["a"]'] },
}; // prettier-ignore

let constraints: Constraints;
beforeAll(() => {
  constraints = new Constraints(BYTES);
});
afterAll(() => constraints.close());

describe('a schema with', () => {
  test.each(Object.entries(CASES))(
    '%s',
    (_name, { schema, allows: yes = [], refuses: no = [], misses = [], error, draft }) => {
      const spec = schemaSpec(schema);
      if (error !== undefined) {
        expect(() => constraints.compile(spec)).toThrow(expect.objectContaining({ code: error }));
        return;
      }
      const isValid = isValidBy(schema, draft);
      const judged = (texts: readonly string[]) =>
        texts.map((text) => [text, isValid(text), allows(constraints, spec, text)]);
      expect(judged(yes)).toEqual(yes.map((text) => [text, true, true]));
      expect(judged(no)).toEqual(no.map((text) => [text, false, false]));
      expect(judged(misses)).toEqual(misses.map((text) => [text, true, false]));
    },
  );
});
