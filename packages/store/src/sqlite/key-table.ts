import { createHash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import type { ApiKey, Caller, Entity, Scope } from '../records.ts';
import type { NewKey } from '../store.ts';
import type { Database } from './database.ts';

type KeyRow = {
  id: string;
  entity_id: string;
  name: string;
  secret_sha256: NodeJS.NonSharedUint8Array;
  scopes: string;
  created_at: number;
  revoked_at: number | null;
};

/** Entities and their API keys. A secret has 256 random bits, so one plain SHA-256 is enough: there is nothing to guess. */
export class KeyTable {
  readonly #database: Database;
  constructor(database: Database) {
    this.#database = database;
  }

  ensureEntity(name: string, now: number): Entity {
    this.#database.run(
      'insert into entities (id, name, created_at) values (?, ?, ?) on conflict (name) do nothing',
      randomUUID(),
      name,
      now,
    );
    const row = this.#database.get<{ id: string; name: string; created_at: number }>(
      'select * from entities where name = ?',
      name,
    );
    if (row === undefined) throw new Error(`entity ${name} vanished`);
    return { id: row.id, name: row.name, createdAt: row.created_at };
  }

  create(input: NewKey, now: number): { id: string; secret: string } {
    const id = randomUUID();
    const secret = `ty-${randomBytes(32).toString('base64url')}`;
    this.#insert(id, input, secret, now);
    return { id, secret };
  }

  ensure(input: NewKey & { secret: string }, now: number): ApiKey {
    const changed = this.#database.run(
      'update api_keys set entity_id = ?, name = ?, scopes = ?, revoked_at = null where secret_sha256 = ?',
      input.entityId,
      input.name,
      JSON.stringify(input.scopes),
      hashOf(input.secret),
    );
    if (changed === 0) this.#insert(randomUUID(), input, input.secret, now);
    const row = this.#database.get<KeyRow>('select * from api_keys where secret_sha256 = ?', hashOf(input.secret));
    if (row === undefined) throw new Error('the key just written vanished');
    return toKey(row);
  }

  verify(secret: string): Caller | null {
    const hash = hashOf(secret);
    const row = this.#database.get<KeyRow & { entity: string }>(
      `select k.*, e.name as entity from api_keys k join entities e on e.id = k.entity_id
       where k.secret_sha256 = ? and k.revoked_at is null`,
      hash,
    );
    // The index look-up compares hashes, whose timing says nothing about a secret; the final comparison takes constant time all the same.
    if (row === undefined || !timingSafeEqual(row.secret_sha256, hash)) return null;
    return { keyId: row.id, entityId: row.entity_id, entity: row.entity, scopes: parseScopes(row.scopes) };
  }

  list(entityId: string | undefined): ApiKey[] {
    const rows =
      entityId === undefined
        ? this.#database.all<KeyRow>('select * from api_keys order by position')
        : this.#database.all<KeyRow>('select * from api_keys where entity_id = ? order by position', entityId);
    return rows.map(toKey);
  }

  revoke(keyId: string, now: number): boolean {
    return (
      this.#database.run('update api_keys set revoked_at = ? where id = ? and revoked_at is null', now, keyId) === 1
    );
  }

  #insert(id: string, input: NewKey, secret: string, now: number): void {
    this.#database.run(
      'insert into api_keys (id, entity_id, name, secret_sha256, scopes, created_at) values (?, ?, ?, ?, ?, ?)',
      id,
      input.entityId,
      input.name,
      hashOf(secret),
      JSON.stringify(input.scopes),
      now,
    );
  }
}

function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret, 'utf8').digest();
}

function toKey(row: KeyRow): ApiKey {
  return {
    id: row.id,
    entityId: row.entity_id,
    name: row.name,
    scopes: parseScopes(row.scopes),
    createdAt: row.created_at,
    revokedAt: row.revoked_at,
  };
}

function parseScopes(text: string): Scope[] {
  return JSON.parse(text);
}
