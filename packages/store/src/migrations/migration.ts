import type { SchemaWords } from '../contract/schema-words.ts';

/** One step of the schema. A published migration is never edited: the next change is a new file with the next number. */
export interface Migration {
  /** Kept in the database; ascends from migration to migration. */
  readonly version: number;
  readonly name: string;
  /** Statements, each ended by a semicolon. */
  readonly sql: (words: SchemaWords) => string;
}
