import { expect, onTestFinished, test } from 'vitest';

import { SqlStore } from '../../sql-store.ts';
import { addModel } from '../../testing/harness.ts';
import { MemoryDatabase, MemorySql } from '../../testing/memory-sql.ts';

test('the states of a page of models take as many statements as that of one model', async () => {
  let numCalls = 0;
  const store = new SqlStore(new MemorySql(new MemoryDatabase()), { onCall: () => void (numCalls += 1) });
  onTestFinished(() => store.close());
  const ids: string[] = [];
  for (let index = 0; index < 30; index++) ids.push((await addModel(store, `agent-${index}`)).id);
  const callsOf = async (some: readonly string[]) => {
    numCalls = 0;
    expect((await store.models.getStates(some)).size).toBe(some.length);
    return numCalls;
  };
  const ofOne = await callsOf(ids.slice(0, 1));
  expect(ofOne).toBeGreaterThan(0);
  expect(await callsOf(ids)).toBe(ofOne);
});
