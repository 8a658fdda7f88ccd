import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Queries, Sql, SqlParameter } from '../contract/sql.ts';

/**
 * An empty database of the newest schema; `open` returns another handle on it each time, as in another
 * process.
 */
export interface SqlHarness {
  open(options?: { busyTimeoutMs?: number }): Promise<Sql>;
  /** Closes every handle and removes the data. */
  destroy(): Promise<void>;
}

const addEntity = (queries: Queries, name: string) =>
  queries.query('insert into entities (id, name, created_at) values (?, ?, 1)', [name, name]);

async function names(queries: Queries): Promise<unknown[]> {
  return (await queries.query('select name from entities order by name', [])).rows.map(({ name }) => name);
}

/** Required behaviour of every `Sql`. A driver must pass this and `storeSuite`. */
export function sqlSuite(name: string, makeHarness: () => Promise<SqlHarness>): void {
  describe(`Sql: ${name}`, () => {
    let harness: SqlHarness;
    let one: Sql;
    let two: Sql;
    beforeEach(async () => {
      harness = await makeHarness();
      [one, two] = [await harness.open(), await harness.open()];
    });
    afterEach(() => harness.destroy());

    it('a statement gives its rows, or how many it changed; values come back as they went in', async () => {
      const secret = Uint8Array.of(0, 1, 255);
      const exact: SqlParameter[] = ['key', 'entity', 'ä 𝄞 \'"?', secret, '[]', Number.MAX_SAFE_INTEGER, null];
      await addEntity(one, 'entity');
      const inserted = await one.query(
        `insert into api_keys (id, entity_id, name, secret_sha256, scopes, created_at, revoked_at) values (?, ?, ?, ?, ?, ?, ?)`,
        exact,
      );
      expect(inserted).toEqual({ rows: [], numChanged: 1 });
      const { rows } = await two.query('select * from api_keys where id = ?', ['key']);
      expect(rows).toHaveLength(1);
      expect(rows[0]).toMatchObject({ name: exact[2], created_at: Number.MAX_SAFE_INTEGER, revoked_at: null });
      expect(Uint8Array.from(rows[0]?.['secret_sha256'] as Uint8Array)).toEqual(secret);
      expect(await two.query('update api_keys set revoked_at = 1 where id = ?', ['other'])).toMatchObject({
        numChanged: 0,
      });
      const returned = await two.query('update api_keys set revoked_at = ? returning id', [5]);
      expect(returned.rows).toEqual([{ id: 'key' }]);
    });

    it('a transaction reads its own writes; others see all of it or nothing', async () => {
      const [written, seen] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const writing = one.transaction(async (queries) => {
        await addEntity(queries, 'a');
        expect(await names(queries)).toEqual(['a']);
        written.resolve();
        await seen.promise;
        await addEntity(queries, 'b');
        return 'done';
      });
      await written.promise;
      const meanwhile = names(two);
      seen.resolve();
      expect(await writing).toBe('done');
      expect([[], ['a', 'b']]).toContainEqual(await meanwhile);
      expect(await names(two)).toEqual(['a', 'b']);
    });

    it('a rejected one leaves nothing, and the next starts fresh', async () => {
      const failing = one.transaction(async (queries) => {
        await addEntity(queries, 'a');
        throw new Error('not so');
      });
      await expect(failing).rejects.toThrow('not so');
      const refused = one.transaction(async (queries) => {
        await addEntity(queries, 'b');
        await addEntity(queries, 'b');
      });
      await expect(refused).rejects.toMatchObject({ code: 'store.constraint_violated' });
      await two.transaction((queries) => addEntity(queries, 'c'), { isDurable: false });
      expect(await names(one)).toEqual(['c']);
    });

    it('writers take turns, over handles and within one, so that their reads stay true', async () => {
      const count = async (queries: Queries) => {
        const before = (await names(queries)).length;
        await addEntity(queries, `entity-${before}`);
      };
      await Promise.all(Array.from({ length: 8 }, (_, index) => (index % 2 === 0 ? one : two).transaction(count)));
      expect(await names(one)).toEqual(Array.from({ length: 8 }, (_, index) => `entity-${index}`));
    });

    it('a caller that waits too long gets busy, and may retry', async () => {
      const [begun, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const impatient = await harness.open({ busyTimeoutMs: 1_000 });
      const holding = one.transaction(async (queries) => {
        await addEntity(queries, 'a');
        begun.resolve();
        await free.promise;
      });
      await begun.promise;
      const waiting = impatient.transaction((queries) => addEntity(queries, 'b'));
      await expect(waiting).rejects.toMatchObject({ code: 'store.busy' });
      free.resolve();
      await holding;
      await impatient.transaction((queries) => addEntity(queries, 'b'));
      expect(await names(two)).toEqual(['a', 'b']);
      expect(impatient.problem).toBeNull();
    });

    it('a closed database refuses calls, and closing again does nothing', async () => {
      await two.transaction((queries) => addEntity(queries, 'a'));
      await two.close();
      await two.close();
      await expect(names(two)).rejects.toMatchObject({ code: 'store.closed' });
      await expect(two.transaction(names)).rejects.toMatchObject({ code: 'store.closed' });
      expect(await names(one)).toEqual(['a']);
    });

    it('the schema refuses a row without its parent', async () => {
      const orphan = one.query(
        `insert into job_events (id, job_id, seq, type, data, created_at) values ('e', 'nobody', 0, 'x', '{}', 0)`,
        [],
      );
      await expect(orphan).rejects.toMatchObject({ code: 'store.constraint_violated' });
    });
  });
}
