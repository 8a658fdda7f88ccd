import { randomUUID, timingSafeEqual } from 'node:crypto';
import { digestOf, hintOf, makeKeySecret } from './key-secret.ts';
import { type KeyLimits, limitsIfAny, NO_LIMITS } from './key-limits.ts';
import type { ApiKey, Caller, Entity, NewKey, Scope } from './keys.ts';
import type { Statements } from '../../contract/sql.ts';

type KeyRow = {
  id: string;
  entity_id: string;
  entity: string;
  name: string;
  secret_sha256: NodeJS.NonSharedUint8Array;
  scopes: string;
  created_at: number;
  last_used_at: number | null;
  revoked_at: number | null;
  expires_at: number | null;
  hint: string | null;
  is_service_key: number;
  requests_per_minute: number | null;
  tokens_per_minute: number | null;
  max_requests_in_flight: number | null;
};

/** A usable key and its end; null is without end. */
export interface FoundKey {
  readonly caller: Caller;
  readonly expiresAt: number | null;
}

const SELECT = 'select k.*, e.name as entity from api_keys k join entities e on e.id = k.entity_id';

/**
 * Entities and their API keys. A secret has 256 random bits and cannot be guessed, so one plain SHA-256 is
 * enough.
 */
export class KeyTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  async ensureEntity(name: string, now: number): Promise<Entity> {
    await this.#sql.run(
      'insert into entities (id, name, created_at) values (?, ?, ?) on conflict (name) do nothing',
      randomUUID(),
      name,
      now,
    );
    const row = await this.#sql.get<{ id: string; name: string; created_at: number }>(
      'select * from entities where name = ?',
      name,
    );
    if (row === undefined) throw new Error(`entity ${name} vanished`);
    return { id: row.id, name: row.name, createdAt: row.created_at };
  }

  async create(input: NewKey, now: number): Promise<ApiKey & { secret: string }> {
    const { secret = makeKeySecret() } = input;
    await this.#insert(input, secret, now);
    return { ...(await this.#bySecret(secret)), secret };
  }

  /** Creates or updates a key. The caller revokes the service's other keys with `revokeServiceKeysBut`. */
  async ensure(input: NewKey & { secret: string }, now: number): Promise<ApiKey> {
    const changed = await this.#sql.run(
      `update api_keys set entity_id = ?, name = ?, scopes = ?, expires_at = ?, is_service_key = ?, revoked_at = null
       where secret_sha256 = ?`,
      input.entityId,
      input.name,
      JSON.stringify(input.scopes),
      input.expiresAt ?? null,
      input.isServiceKey === true ? 1 : 0,
      digestOf(input.secret),
    );
    if (changed === 0) await this.#insert(input, input.secret, now);
    return await this.#bySecret(input.secret);
  }

  /** @returns the number of revoked keys */
  async revokeServiceKeysBut(keyId: string, now: number): Promise<number> {
    return await this.#sql.run(
      'update api_keys set revoked_at = ? where is_service_key = 1 and revoked_at is null and id <> ?',
      now,
      keyId,
    );
  }

  /** Finds the key with this digest, unless it is revoked or has expired. */
  async find(digest: Buffer, now: number): Promise<FoundKey | null> {
    const row = await this.#sql.get<KeyRow>(
      `${SELECT} where k.secret_sha256 = ? and k.revoked_at is null and (k.expires_at is null or k.expires_at > ?)`,
      digest,
      now,
    );
    // The index lookup compares hashes, whose timing reveals nothing about a secret; the final comparison
    // takes constant time anyway.
    if (row === undefined || !timingSafeEqual(row.secret_sha256, digest)) return null;
    const { entityId, entity, scopes, limits, expiresAt } = toKey(row);
    return { caller: { keyId: row.id, entityId, entity, scopes, limits: limitsIfAny(limits) }, expiresAt };
  }

  async get(keyId: string): Promise<ApiKey | null> {
    const row = await this.#sql.get<KeyRow>(`${SELECT} where k.id = ?`, keyId);
    return row === undefined ? null : toKey(row);
  }

  async getBySecret(secret: string): Promise<ApiKey | null> {
    const row = await this.#sql.get<KeyRow>(`${SELECT} where k.secret_sha256 = ?`, digestOf(secret));
    return row === undefined ? null : toKey(row);
  }

  async list(entityId: string | undefined): Promise<ApiKey[]> {
    const rows =
      entityId === undefined
        ? await this.#sql.all<KeyRow>(`${SELECT} order by k.position`)
        : await this.#sql.all<KeyRow>(`${SELECT} where k.entity_id = ? order by k.position`, entityId);
    return rows.map(toKey);
  }

  async setLimits(keyId: string, limits: KeyLimits): Promise<void> {
    const statement =
      'update api_keys set requests_per_minute = ?, tokens_per_minute = ?, max_requests_in_flight = ? where id = ?';
    await this.#sql.run(statement, ...valuesOf(limits), keyId);
  }

  /** Sets the time of the last use, unless a later one is stored. */
  async setLastUsed(keyId: string, at: number): Promise<void> {
    const statement =
      'update api_keys set last_used_at = ? where id = ? and (last_used_at is null or last_used_at < ?)';
    await this.#sql.run(statement, at, keyId, at);
  }

  async revoke(keyId: string, now: number): Promise<boolean> {
    return (
      (await this.#sql.run('update api_keys set revoked_at = ? where id = ? and revoked_at is null', now, keyId)) === 1
    );
  }

  async #bySecret(secret: string): Promise<ApiKey> {
    const key = await this.getBySecret(secret);
    if (key === null) throw new Error('the key just written vanished');
    return key;
  }

  async #insert(input: NewKey, secret: string, now: number): Promise<void> {
    await this.#sql.run(
      `insert into api_keys (id, entity_id, name, secret_sha256, scopes, created_at, expires_at, hint, is_service_key,
         requests_per_minute, tokens_per_minute, max_requests_in_flight)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      randomUUID(),
      input.entityId,
      input.name,
      digestOf(secret),
      JSON.stringify(input.scopes),
      now,
      input.expiresAt ?? null,
      hintOf(secret),
      input.isServiceKey === true ? 1 : 0,
      ...valuesOf(input.limits ?? NO_LIMITS),
    );
  }
}

function toKey(row: KeyRow): ApiKey {
  return {
    id: row.id,
    entityId: row.entity_id,
    entity: row.entity,
    name: row.name,
    scopes: parseScopes(row.scopes),
    limits: {
      requestsPerMinute: row.requests_per_minute,
      tokensPerMinute: row.tokens_per_minute,
      maxRequestsInFlight: row.max_requests_in_flight,
    },
    hint: row.hint,
    isServiceKey: row.is_service_key === 1,
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
  };
}

/** Values in the order of the columns. */
function valuesOf({ requestsPerMinute, tokensPerMinute, maxRequestsInFlight }: KeyLimits): (number | null)[] {
  return [requestsPerMinute, tokensPerMinute, maxRequestsInFlight];
}

function parseScopes(text: string): Scope[] {
  return JSON.parse(text);
}
