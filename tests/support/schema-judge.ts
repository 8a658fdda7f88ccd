import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';

// `strict: false`: unknown keywords and combinations are valid JSON Schema. Without the precision ajv refuses
// 0.07 as a multiple of 0.01.
const OPTIONS = { strict: false, multipleOfPrecision: 9, validateSchema: false } as const;

/** Checks JSON texts against a schema with ajv and `JSON.parse`, independently of llguidance. */
export function isValidBy(schema: unknown, draft: 2020 | 7 = 2020): (json: string) => boolean {
  const ajv = draft === 2020 ? new Ajv2020(OPTIONS) : new Ajv(OPTIONS);
  formats.default(ajv);
  const validate = ajv.compile(schema as object | boolean);
  return (json) => {
    try {
      return validate(JSON.parse(json)) === true;
    } catch {
      return false; // not JSON
    }
  };
}
