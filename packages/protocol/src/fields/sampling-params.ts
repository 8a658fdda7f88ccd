import { type Form, unfitness } from './form.ts';
import {
  type DistributionChange,
  type ParamOwner,
  type RequestForm,
  SAMPLING_FIELDS,
  type SamplingField,
  type SamplingRow,
} from './sampling-fields.ts';

/** Parameters of a sampler, with types, defaults and limits from the table of fields. */

type Rows = typeof SAMPLING_FIELDS;

/** Fields whose parameter depends only on them. */
type PlainField<Owner extends ParamOwner> = {
  [Field in SamplingField]: Rows[Field] extends { readonly of: Owner; readonly default: unknown } ? Field : never;
}[SamplingField];

type Fixed<Value> = Value extends readonly (infer Item)[] ? readonly Item[] : Value;

type ParamOf<Row> =
  | (Row extends { readonly read: (value: never) => infer Param }
      ? Param
      : Row extends { readonly form: Form<infer Value> }
        ? Fixed<Value>
        : never)
  | (Row extends { readonly default: null } ? null : never);

/** Parameters that follow from one field each, under their internal names. */
export type PlainParams<Owner extends ParamOwner> = {
  readonly [Field in PlainField<Owner> as Rows[Field]['name' & keyof Rows[Field]] & string]: ParamOf<Rows[Field]>;
};

/** Settings for choosing a token from a row of logits. */
export interface SamplingParams extends PlainParams<'sampling'> {
  /** `[token id, bias]` of distinct ids, clamped to ±100. */
  readonly logitBias: readonly (readonly [number, number])[];
  /** Choice i samples with `seed + i`; null uses a random seed. */
  readonly seed: bigint | null;
}

/** Fields that remove tokens from the distribution. */
type TruncationField = {
  [Field in SamplingField]: Rows[Field] extends { readonly changes: 'truncation' } ? Field : never;
}[SamplingField];

/** Settings that select the possible tokens. */
export type Truncation = Pick<SamplingParams, Rows[TruncationField]['name']>;

const rows = Object.entries(SAMPLING_FIELDS) as readonly (readonly [string, SamplingRow])[];

interface PlainRow {
  readonly field: string;
  readonly forms: readonly RequestForm[];
  readonly name: string;
  readonly default: unknown;
  readonly read: ((value: unknown) => unknown) | null;
  readonly param: Form<unknown>;
}

function plainRows(owner: ParamOwner): readonly PlainRow[] {
  return rows.flatMap(([field, row]) => {
    const { name, of, forms, form, param = form, read = null } = row;
    if (of !== owner || name === undefined || !('default' in row)) return [];
    return [{ field, forms, name, default: row.default, read: read as PlainRow['read'], param }];
  });
}

const PLAIN_ROWS: Readonly<Record<ParamOwner, readonly PlainRow[]>> = {
  sampling: plainRows('sampling'),
  tokens: plainRows('tokens'),
  text: plainRows('text'),
};

/**
 * Plain parameters of a validated request. Null, absent fields and fields outside this form mean the default.
 */
export function readParams<Owner extends ParamOwner>(
  body: Readonly<Record<string, unknown>>,
  form: RequestForm,
  owner: Owner,
): PlainParams<Owner> {
  const params: Record<string, unknown> = {};
  for (const { field, forms, name, default: standard, read } of PLAIN_ROWS[owner]) {
    const value = forms.includes(form) ? (body[field] ?? null) : null;
    params[name] = value === null ? standard : read === null ? value : read(value);
  }
  return params as PlainParams<Owner>;
}

/** Default plain parameters. */
export const DEFAULT_PARAMS: { readonly [Owner in ParamOwner]: PlainParams<Owner> } = Object.freeze({
  sampling: Object.freeze(readParams({}, 'chat', 'sampling')),
  tokens: Object.freeze(readParams({}, 'chat', 'tokens')),
  text: Object.freeze(readParams({}, 'chat', 'text')),
});

/** Sampling directly from the model's distribution. */
export const DEFAULT_SAMPLING: SamplingParams = Object.freeze({
  ...DEFAULT_PARAMS.sampling,
  logitBias: [],
  seed: null,
});

/** Settings that remove no token. */
export const NO_TRUNCATION: Truncation = Object.freeze(
  Object.fromEntries(
    rows.flatMap(([, { changes, name, default: off }]) => (changes === 'truncation' ? [[name, off]] : [])),
  ) as unknown as Truncation,
);

export interface UnfitParam {
  readonly name: string;
  /** Broken rule, in words. */
  readonly rule: string;
  readonly value: unknown;
}

/**
 * The first plain parameter outside its limits, or null. Does not check inside texts and lists; see
 * `findForeignToken`.
 */
export function findUnfitParam<Owner extends ParamOwner>(params: PlainParams<Owner>, owner: Owner): UnfitParam | null {
  for (const { name, default: standard, param } of PLAIN_ROWS[owner]) {
    const value = (params as Readonly<Record<string, unknown>>)[name];
    if (value === null && standard === null) continue;
    const rule = unfitness(param, value);
    if (rule === null) continue;
    const shown = Array.isArray(value) ? `${value.length} items` : value;
    return { name, rule: standard === null ? `null or ${rule}` : rule, value: shown };
  }
  return null;
}

const CHANGING_ROWS = rows.flatMap(([field, { changes, name, default: off }]) =>
  changes === undefined || name === undefined ? [] : [{ field, name, changes, off }],
);

/**
 * Parts of the distribution that settings change. Missing settings, for example of old records, change
 * nothing.
 */
export function distributionChanges(settings: Readonly<Partial<PlainParams<'sampling'>>>): Set<DistributionChange> {
  const changes = new Set<DistributionChange>();
  for (const { name, changes: change, off } of CHANGING_ROWS) {
    const value = (settings as Readonly<Record<string, unknown>>)[name];
    if (value !== undefined && value !== off) changes.add(change);
  }
  return changes;
}

/** Request names of the fields that change the distribution in one way. */
export function fieldsThatChange(change: DistributionChange): readonly string[] {
  return CHANGING_ROWS.flatMap(({ field, changes }) => (changes === change ? [field] : []));
}

const FIELD_OF_PARAM: Readonly<Record<string, string>> = Object.fromEntries(
  rows.flatMap(([field, { name, of }]) =>
    name === undefined ? [] : [[name, field], ...(of === 'sampling' ? [[`sampling.${name}`, field]] : [])],
  ),
);

/**
 * Request name of the field that a parameter is made from; null if it is not in the table. `sampling.topK`
 * counts as `topK`.
 */
export function fieldOfParam(name: string): string | null {
  return Object.hasOwn(FIELD_OF_PARAM, name) ? FIELD_OF_PARAM[name]! : null;
}
