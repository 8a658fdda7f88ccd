import Type, { type TNull, type TOptional, type TSchema, type TUnion, type TUnsafe } from 'typebox';

import type { ValueOf } from '../fields/form.ts';
import {
  type RequestForm,
  SAMPLING_FIELDS,
  type SamplingField,
  type SamplingFieldOf,
  type SamplingRow,
} from '../fields/sampling-fields.ts';
import { optionalNullable } from '../shape/schema.ts';

type Rows = typeof SAMPLING_FIELDS;

type PropertyOf<Row extends SamplingRow> = Row extends { readonly isNullable: false }
  ? TOptional<TUnsafe<ValueOf<Row['form']>>>
  : TOptional<TUnion<[TUnsafe<ValueOf<Row['form']>>, TNull]>>;

/** Schemas of the table's fields in a form of request. */
export type SamplingProperties<F extends RequestForm> = { [Field in SamplingFieldOf<F>]: PropertyOf<Rows[Field]> };

const ROWS = Object.entries(SAMPLING_FIELDS) as readonly (readonly [SamplingField, SamplingRow])[];

/** Names of the table's fields in a form of request. */
export function samplingFieldsOf<F extends RequestForm>(form: F): SamplingFieldOf<F>[] {
  return ROWS.filter(([, { forms }]) => forms.includes(form)).map(([field]) => field as SamplingFieldOf<F>);
}

const PROPERTIES: Readonly<Record<string, TSchema>> = Object.fromEntries(
  ROWS.map(([field, { form, isNullable = true }]) => {
    const schema = Type.Unsafe(form);
    return [field, isNullable ? optionalNullable(schema) : Type.Optional(schema)];
  }),
);

export function samplingProperties<F extends RequestForm>(form: F): SamplingProperties<F> {
  return Object.fromEntries(samplingFieldsOf(form).map((field) => [field, PROPERTIES[field]])) as SamplingProperties<F>;
}

/** Descriptions for clients of the table's fields in a form of request. */
export function samplingWords<F extends RequestForm>(form: F): Record<SamplingFieldOf<F>, string> {
  return Object.fromEntries(samplingFieldsOf(form).map((field) => [field, SAMPLING_FIELDS[field].words])) as Record<
    SamplingFieldOf<F>,
    string
  >;
}
