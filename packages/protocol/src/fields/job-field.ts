import type { Form, ValueOf } from './form.ts';

/**
 * A setting of a training job: one row a field, and the only place that says its names, its limits, its default and its words. A field has a
 * name in the trainer or is declared to change nothing: one that had neither would be neither honoured nor listed as ignored.
 */
export type JobFieldRow = ActingRow | InertRow;

interface AnyRow {
  /** On the wire. Null there means the default. */
  readonly form: Form<unknown>;
  /** Its description for clients, with its default. */
  readonly words: string;
}

interface ActingRow extends AnyRow {
  /** Within the trainer. */
  readonly name: string;
  /** Its name in the complete settings, where that is another. */
  readonly resolvedName?: string;
  /** Absent: what it means follows from more than this field. Null: no number, the setting is off or follows from the data. */
  readonly default?: unknown;
  /** Its reader: the loss, or the optimizer. Default: whatever drives the job. */
  readonly part?: 'loss' | 'optimizer';
  readonly inert?: undefined;
}

interface InertRow extends AnyRow {
  /** The value that asks for nothing. Others are listed on the job as ignored. */
  readonly inert: unknown;
  readonly name?: undefined;
  readonly resolvedName?: undefined;
  readonly default?: undefined;
  readonly part?: undefined;
}

export type JobFieldTable = Readonly<Record<string, JobFieldRow>>;

type NameOf<Row> = Row extends { readonly name: infer Name extends string } ? Name : never;

/** The settings that a client may send, by the names within. `null` and `undefined` both mean absent; 0 and false are values. */
export type JobInput<Table extends JobFieldTable> = {
  readonly [Field in keyof Table as NameOf<Table[Field]>]?: ValueOf<Table[Field]['form']> | null | undefined;
};

/** The settings that follow from one field each, by the names within, complete. */
export type PlainSettings<Table extends JobFieldTable> = {
  readonly [Field in keyof Table as Table[Field] extends { readonly default: unknown } ? NameOf<Table[Field]> : never]:
    | ValueOf<Table[Field]['form']>
    | (Table[Field] extends { readonly default: null } ? null : never);
};

/** The names within of the plain settings of one part. */
export type NamesOfPart<Table extends JobFieldTable, Part extends NonNullable<JobFieldRow['part']>> = {
  [Field in keyof Table]: Table[Field] extends { readonly default: unknown; readonly part: Part }
    ? NameOf<Table[Field]>
    : never;
}[keyof Table];

/** Fields that change nothing here. */
export type InertField<Table extends JobFieldTable> = {
  [Field in keyof Table]: Table[Field] extends { readonly inert: unknown } ? Field : never;
}[keyof Table];

/** A table as the wire sends it under the names within; what has no name within is left out. */
export function toJobInput<Table extends JobFieldTable>(
  table: Table,
  wire: Readonly<Record<string, unknown>>,
): JobInput<Table> {
  const input: Record<string, unknown> = {};
  for (const field of Object.keys(table)) {
    const { name } = table[field]!;
    if (name !== undefined) input[name] = wire[field];
  }
  return input as JobInput<Table>;
}
