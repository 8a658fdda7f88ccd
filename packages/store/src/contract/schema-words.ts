/** Words of a schema that differ between databases. The rest of the schema uses words common to all. */
export interface SchemaWords {
  /** Key that the database increments and never reuses. */
  readonly position: string;
  /** Key that the database chooses. */
  readonly rowId: string;
  /** 64 bits. */
  readonly integer: string;
  readonly blob: string;
  /** 64-bit floating point. */
  readonly double: string;
  /** Text after the columns of a table. */
  readonly tableEnd: string;
  /** The same, for a table whose rows are in the order of their primary key. */
  readonly sortedTableEnd: string;
  /** Function of two values: the first that is not null. For an early step only; others use `coalesce`. */
  readonly ifNull: string;
  /** Index expression: the column is null. For an early step only; others use parentheses. */
  isNull(column: string): string;
  /** Statement that refuses inserts while the condition holds; in it `new` is the inserted row. */
  refuseInsert(what: { trigger: string; table: string; when: string; message: string }): string;
  /** Statement that reverts `refuseInsert`. */
  dropRefusal(what: { trigger: string; table: string }): string;
  /**
   * Statement that notifies other processes when an insert is committed; empty for a database without
   * notifications.
   */
  notifyOnInsert(what: { trigger: string; table: string }): string;
  /**
   * Changes a table: `rebuild` recreates it under its name if the database cannot `alter` it. Rows that refer
   * to it stay unchanged.
   */
  reshape(ways: { rebuild: string; alter: string }): string;
}
