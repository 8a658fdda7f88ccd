import type { TransactionOptions } from '../../contract/sql.ts';
import type { Access } from '../access.ts';
import type { SqlClock } from '../clock/sql-clock.ts';
import type { Tables } from '../tables.ts';
import { spendKeyLimits } from './key-budget.ts';
import { KeyUseBuffer } from './key-use-buffer.ts';
import type { Keys } from './keys.ts';
import { KnownKeys } from './known-keys.ts';

/** @param outageMs time for which keys are used as last read while the database is away */
export function sqlKeys(access: Access, clock: SqlClock, outageMs: number): Keys {
  const { sql, tables, instanceId, now, flushes, write, writeAnswered } = access;
  const known = new KnownKeys(
    {
      find: (digest, at) => tables.keys.find(digest, at),
      version: () => sql.foreignVersion,
      isAway: () => sql.isAway(),
    },
    { outageMs },
  );
  const uses = new KeyUseBuffer(access);
  flushes.push(() => uses.flush());

  /** Clears the cache also after a failure, because the commit may have happened. */
  async function change<Result>(body: (own: Tables) => Promise<Result>, options?: TransactionOptions): Promise<Result> {
    try {
      return await write(body, options);
    } finally {
      known.changed();
    }
  }

  return {
    ensureEntity: (name) => write(({ keys }) => keys.ensureEntity(name, now())),
    create: (input) =>
      writeAnswered(
        async ({ keys }) => {
          const { secret, ...key } = await keys.create(input, now());
          return { ...key, secret };
        },
        ({ secret: _secret, ...key }) => input.completes?.(key),
      ),
    ensure: (input) =>
      change(async ({ keys, signIns }) => {
        const key = await keys.ensure(input, now());
        const numReplaced = key.isServiceKey ? await keys.revokeServiceKeysBut(key.id, now()) : 0;
        if (numReplaced > 0) await signIns.removeOfRevokedKeys();
        return { ...key, numReplaced };
      }),
    verify: async (secret) => await known.verify(secret, clock.endsAt()),
    getBySecret: async (secret) => await tables.keys.getBySecret(secret),
    list: async (entityId) => await tables.keys.list(entityId),
    get: async (keyId) => await tables.keys.get(keyId),
    setLimits: (keyId, limits) =>
      change(async ({ keys }) => {
        const key = await keys.get(keyId);
        if (key === null) return null;
        const changed = { ...key, limits: { ...key.limits, ...limits } };
        await keys.setLimits(keyId, changed.limits);
        return changed;
      }),
    revoke: (keyId) =>
      change(
        async ({ keys, signIns }) => {
          const isRevoked = await keys.revoke(keyId, now());
          if (isRevoked) await signIns.removeOfRevokedKeys();
          return isRevoked;
        },
        { spendsReserve: true },
      ),
    recordUse: (keyId) => uses.add(keyId),
    spend: (spendings) =>
      write((own) => spendKeyLimits(own, spendings, { processId: instanceId, now: now() }), { isDurable: false }),
  };
}
