import type { CompletesWith } from '../idempotency/idempotency.ts';
import type { KeyAnswer, KeyLimits, KeySpending } from './key-limits.ts';

/** Entities, their API keys and the limits of keys. */
export interface Keys {
  /** Returns the entity of that name; creates it if absent. */
  ensureEntity(name: string): Promise<Entity>;
  /** Creates a key with the secret of the input, or a random one of 256 bits. Only this call returns it. */
  create(input: NewKey & { completes?: CompletesWith<ApiKey> }): Promise<ApiKey & { secret: string }>;
  /**
   * Ensures a key with this operator-chosen secret (e.g. from the environment): creates it if absent, else
   * updates its owner, name, scopes and end and makes it valid again. As the service's key it replaces the
   * previous one, which is revoked in the same transaction.
   */
  ensure(input: NewKey & { secret: string }): Promise<ApiKey & { numReplaced: number }>;
  /** Returns null if the secret is unknown, revoked or expired. */
  verify(secret: string): Promise<Caller | null>;
  /** Returns the key of a secret in any state, to explain why it is refused. Null if unknown. */
  getBySecret(secret: string): Promise<ApiKey | null>;
  /** Keys, oldest first, revoked ones included; of one entity, or of all. */
  list(entityId?: string): Promise<ApiKey[]>;
  /** Returns the key in any state. Null if unknown. */
  get(keyId: string): Promise<ApiKey | null>;
  /** Sets limits from the key's next request on; omitted limits stay. Null if unknown. */
  setLimits(keyId: string, limits: Partial<KeyLimits>): Promise<ApiKey | null>;
  /** Revokes a key and ends its sessions and links. False if unknown or already revoked. */
  revoke(keyId: string): Promise<boolean>;
  /**
   * Records that a request used the key. Returns at once: the use is written within a second, and later uses of the
   * same minute are not. A failed write is repeated.
   */
  recordUse(keyId: string): void;
  /**
   * Reports this process's use of limited keys and decides which requests may start: one transaction on the
   * clock of the store, which does not wait for the disk. Places in flight belong to this process for 15 s.
   * @returns answers in the order of the spendings
   */
  spend(spendings: readonly KeySpending[]): Promise<KeyAnswer[]>;
}

export type Scope = 'inference' | 'training' | 'admin';

export interface Entity {
  id: string;
  name: string;
  createdAt: number;
}

/** An API key without its secret, of which only the SHA-256 is stored. */
export interface ApiKey {
  id: string;
  entityId: string;
  entity: string;
  name: string;
  scopes: Scope[];
  limits: KeyLimits;
  /** Start of the secret; null if the secret was chosen by an operator. */
  hint: string | null;
  /** True for the service's own first key, generated or configured. */
  isServiceKey: boolean;
  createdAt: number;
  /** Within a minute; of several processes the latest. Null: never. */
  lastUsedAt: number | null;
  /** Null: never. */
  expiresAt: number | null;
  revokedAt: number | null;
}

/** Identity that a verified secret gives. */
export interface Caller {
  keyId: string;
  entityId: string;
  entity: string;
  scopes: Scope[];
  /** Null if nothing is limited. */
  limits: KeyLimits | null;
  /** Set while the database does not answer: the key is as last read. */
  isRemembered?: true;
}

export interface NewKey {
  entityId: string;
  name: string;
  scopes: readonly Scope[];
  /** Milliseconds since the epoch; default null: never. */
  expiresAt?: number | null;
  /** Default false. */
  isServiceKey?: boolean;
  /**
   * Secret from `makeKeySecret`, for a caller that must store it before the key exists. Default: `create`
   * makes one.
   */
  secret?: string;
  /** Default: none. `ensure` does not change those of an existing key. */
  limits?: KeyLimits;
}
