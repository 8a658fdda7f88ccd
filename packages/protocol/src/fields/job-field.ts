import type { Form, ValueOf } from './form.ts';

/**
 * Setting of a training job: one row per field, and the only place with its names, limits, default and
 * description. A field has a name in the trainer or is declared inert; otherwise it would be neither used nor
 * listed as ignored.
 */
export type JobFieldRow = ActingRow | InertRow;

interface AnyRow {
  /** Form in a request, in which null means the default. */
  readonly form: Form<unknown>;
  /** Description for clients, with the default. */
  readonly words: string;
}

interface ActingRow extends AnyRow {
  /** Name in the trainer. */
  readonly name: string;
  /** Name in the complete settings, if different. */
  readonly resolvedName?: string;
  /** Absent: the value depends on further fields. Null: the setting is off or depends on the data. */
  readonly default?: unknown;
  /** Its reader: the loss or the optimizer. Default: the driver of the job. */
  readonly part?: 'loss' | 'optimizer';
  readonly inert?: undefined;
}

interface InertRow extends AnyRow {
  /** Value without a request for an effect. Others are listed on the job as ignored. */
  readonly inert: unknown;
  readonly name?: undefined;
  readonly resolvedName?: undefined;
  readonly default?: undefined;
  readonly part?: undefined;
}

export type JobFieldTable = Readonly<Record<string, JobFieldRow>>;

type NameOf<Row> = Row extends { readonly name: infer Name extends string } ? Name : never;

/**
 * Settings from a client, under the trainer's names. `null` and `undefined` both mean absent; 0 and false are
 * values.
 */
export type JobInput<Table extends JobFieldTable> = {
  readonly [Field in keyof Table as NameOf<Table[Field]>]?: ValueOf<Table[Field]['form']> | null | undefined;
};

/** Complete settings that follow from one field each, under the trainer's names. */
export type PlainSettings<Table extends JobFieldTable> = {
  readonly [Field in keyof Table as Table[Field] extends { readonly default: unknown } ? NameOf<Table[Field]> : never]:
    | ValueOf<Table[Field]['form']>
    | (Table[Field] extends { readonly default: null } ? null : never);
};

/** Trainer's names of the plain settings of one part. */
export type NamesOfPart<Table extends JobFieldTable, Part extends NonNullable<JobFieldRow['part']>> = {
  [Field in keyof Table]: Table[Field] extends { readonly default: unknown; readonly part: Part }
    ? NameOf<Table[Field]>
    : never;
}[keyof Table];

export type InertField<Table extends JobFieldTable> = {
  [Field in keyof Table]: Table[Field] extends { readonly inert: unknown } ? Field : never;
}[keyof Table];

/** Converts request fields to the trainer's names; leaves out inert fields. */
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
