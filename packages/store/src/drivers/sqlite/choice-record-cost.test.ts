import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { addModel } from '../../testing/harness.ts';
import { openSqliteStore } from '../../open-sqlite-store.ts';

const NUM_ANSWERS = 2000;
const PROMPT_TOKENS = 200;
const REPLY_TOKENS = 200;
const BATCH = 250;

// Measured on two busy cores: 7 µs at the end of an answer, 70 µs of a shared write, and 25 µs per lookup. On
// disk 8 bytes per sampled token, 4 per prompt token, and 0.9 KB.
test('a record costs its numbers plus a kilobyte on disk', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-records-'));
  const path = join(directory, 'store.sqlite');
  let store = await openSqliteStore(path);
  const { id: modelId, entityId } = await addModel(store);
  const source = { entityId, modelId, step: 1, digest: 'a'.repeat(64), choiceIndex: 0 };
  const promptTokenIds = new Int32Array(PROMPT_TOKENS).fill(1000);
  const ids: string[] = [];
  let takeMs = 0;
  let writeMs = 0;
  for (let start = 0; start < NUM_ANSWERS; start += BATCH) {
    const answers = Array.from({ length: BATCH }, () => ({
      ...source,
      answerId: crypto.randomUUID(),
      promptTokenIds,
      tokenIds: Int32Array.from({ length: REPLY_TOKENS }, () => Math.random() * 49_000),
      logprobs: Float32Array.from({ length: REPLY_TOKENS }, () => -Math.random()),
    }));
    let before = performance.now();
    const written = answers.map((answer) => store.choiceRecords.add(answer));
    takeMs += performance.now() - before;
    before = performance.now();
    ids.push(...(await Promise.all(written)));
    writeMs += performance.now() - before;
  }
  const before = performance.now();
  const found = await store.choiceRecords.find(entityId, ids);
  const findMs = performance.now() - before;
  expect(found.size).toBe(NUM_ANSWERS);
  await store.close();
  store = await openSqliteStore(path); // moves the content of the log to the file
  await store.close();
  const { size } = await stat(path);
  await rm(directory, { recursive: true });
  const numbers = 4 * PROMPT_TOKENS + 8 * REPLY_TOKENS;
  const perAnswer = size / NUM_ANSWERS;
  const each = (ms: number) => ((1000 * ms) / NUM_ANSWERS).toFixed(0);
  console.log(
    `an answer: ${each(takeMs)} µs to take, ${each(writeMs)} µs to write, ${each(findMs)} µs to find; ` +
      `${perAnswer.toFixed(0)} bytes on disk for ${numbers} of numbers (${PROMPT_TOKENS} + ${REPLY_TOKENS} tokens)`,
  );
  expect(perAnswer - numbers).toBeLessThan(1200);
});
