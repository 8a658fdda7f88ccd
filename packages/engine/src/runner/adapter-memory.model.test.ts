import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { PagedDecoder } from '@trainyard/decoder';
import { GgufFile } from '@trainyard/native';
import { readArchitecture } from '@trainyard/transformer';
import { writeAdapter } from '@trainyard/transformer/testing';
import { afterAll, expect, test } from 'vitest';

import { testModel } from '../../../../tests/support/model.ts';
import { Adapters } from './adapters.ts';

const NUM_ADAPTERS = 121;
const MAX_BYTES = 64e6;
/** Allowance for uncollected garbage and other memory of the process. */
const SLACK_BYTES = 200e6;

const folder = mkdtempSync(join(tmpdir(), 'adapter-memory-'));
afterAll(() => rmSync(folder, { recursive: true }));

test('memory for adapters stays below its limit, however many are used', () => {
  const { base } = testModel();
  const path = join(folder, 'adapter.gguf');
  {
    using file = GgufFile.open(base);
    writeAdapter(path, readArchitecture(file), { rank: 8, alpha: 16 }, (_, i) => 0.02 * Math.sin(i));
  }
  const sizes = { capacityTokens: 256, maxSequences: 2, batchTokens: 64, numThreads: 1 };
  const runner = PagedDecoder.open(base, sizes);
  const adapters = new Adapters(runner, { maxAdapterBytes: MAX_BYTES });
  const use = (digest: string): void => {
    adapters.pin({ digest, path });
    adapters.unpin(digest);
  };
  use('0');
  const oneBytes = adapters.sizeBytes;
  const before = process.memoryUsage().rss;
  for (let i = 1; i < NUM_ADAPTERS; i++) {
    use(String(i));
    expect(adapters.sizeBytes).toBeLessThanOrEqual(MAX_BYTES);
  }
  const grownBytes = process.memoryUsage().rss - before;
  const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1);
  console.log(
    `${NUM_ADAPTERS} adapters of ${megabytes(oneBytes)} MB, limit ${megabytes(MAX_BYTES)} MB: ${adapters.count} kept, the process grew by ${megabytes(grownBytes)} MB`,
  );
  expect(oneBytes * NUM_ADAPTERS, 'all of them').toBeGreaterThan(MAX_BYTES + SLACK_BYTES);
  expect(grownBytes).toBeLessThan(MAX_BYTES + SLACK_BYTES);
  adapters.close();
  runner.close();
});
