/** Words of a schema that differ between databases. Everything else is said in words that all of them know. */
export interface SchemaWords {
  /** A key that the database counts up and never uses twice. */
  readonly position: string;
  /** A key that the database chooses. */
  readonly rowId: string;
  /** 64 bits. */
  readonly integer: string;
  readonly blob: string;
  /** 64-bit floating point. */
  readonly double: string;
  /** The text after the columns of a table. */
  readonly tableEnd: string;
  /** The same, of a table whose rows lie in the order of their primary key. */
  readonly sortedTableEnd: string;
  /** Function of two values: the first that is not null. */
  readonly ifNull: string;
  /** An index on whether that column is null. */
  isNull(column: string): string;
  /** A statement: no row is inserted while the condition holds, in which `new` is that row. */
  refuseInsert(what: { trigger: string; table: string; when: string; message: string }): string;
  /** Takes back `refuseInsert`. */
  dropRefusal(what: { trigger: string; table: string }): string;
  /** Whoever inserts a row has other processes told when it is committed; nothing where a database tells nobody. */
  tellInsert(what: { trigger: string; table: string }): string;
  /** Changes what a table is: `rebuild` makes it anew under its name, where `alter` cannot be said. Rows that point to it stay as they are. */
  reshape(ways: { rebuild: string; alter: string }): string;
}
