import { INITIAL } from './0001-initial.ts';
import { ARTIFACTS } from './0003-artifacts.ts';

/** One step of the schema. A published migration is never edited: the next change is a new file with the next number. */
export interface Migration {
  /** 1-based, without gaps; kept in SQLite's `user_version`. */
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}

/** Number 2 is taken by a change that is not here yet. */
const RESERVED: Migration = { version: 2, name: 'reserved', sql: '' };

export const MIGRATIONS: readonly Migration[] = [INITIAL, RESERVED, ARTIFACTS];
