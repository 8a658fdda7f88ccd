import Type, { type TNull, type TOptional, type TUnion, type TUnsafe } from 'typebox';

import type { ValueOf } from '../fields/form.ts';
import type { JobFieldTable } from '../fields/job-field.ts';
import { optionalNullable } from '../shape/schema.ts';

/** Schemas of a table's fields; each may be omitted or null, which both mean its default. */
export type JobProperties<Table extends JobFieldTable> = {
  -readonly [Field in keyof Table]: TOptional<TUnion<[TUnsafe<ValueOf<Table[Field]['form']>>, TNull]>>;
};

export function jobProperties<Table extends JobFieldTable>(table: Table): JobProperties<Table> {
  return Object.fromEntries(
    Object.entries(table).map(([field, { form }]) => [field, optionalNullable(Type.Unsafe(form))]),
  ) as unknown as JobProperties<Table>;
}

/** Descriptions of a table's fields, for clients. */
export function jobWords<Table extends JobFieldTable>(table: Table): Record<keyof Table, string> {
  return Object.fromEntries(Object.entries(table).map(([field, { words }]) => [field, words])) as Record<
    keyof Table,
    string
  >;
}
