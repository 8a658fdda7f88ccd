import type { SchemaWords } from '../contract/schema-words.ts';

/**
 * The schema, or one change of it. A published migration is never edited; the next change is a new file with
 * the next number.
 */
export interface Migration {
  /** Stored in the database; ascends from migration to migration. */
  readonly version: number;
  readonly name: string;
  /** Statements, each ending with a semicolon. */
  readonly sql: (words: SchemaWords) => string;
}
