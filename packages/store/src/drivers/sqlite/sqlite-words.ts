import type { SchemaWords } from '../../contract/schema-words.ts';

export const SQLITE_WORDS: SchemaWords = {
  position: 'integer primary key autoincrement',
  rowId: 'integer primary key',
  integer: 'integer',
  blob: 'blob',
  double: 'real',
  tableEnd: ' strict',
  sortedTableEnd: ' strict, without rowid',
  // Lower case as in the first releases: SQLite matches index expressions by text.
  ifNull: 'ifnull',
  isNull: (column) => `${column} is null`,
  refuseInsert: ({ trigger, table, when, message }) => `create trigger ${trigger} before insert on ${table}
when ${when}
begin
  select raise(abort, '${message}');
end;
`,
  dropRefusal: ({ trigger }) => `drop trigger ${trigger};`,
  notifyOnInsert: () => '',
  reshape: ({ rebuild }) => rebuild,
};
