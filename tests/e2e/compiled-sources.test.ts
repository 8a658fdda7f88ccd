/**
 * V8 13.6 sometimes crashes if threads strip types from sources: a service gives its threads and children no
 * TypeScript sources.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, expect, test } from 'vitest';

import { Trainyard } from '@trainyard/sdk';

import { scoredGroup } from '../support/groups.ts';
import { smallService } from '../support/small-service.ts';

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-compiled-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const RECORD = join(scratch, 'sources.sha256');
/**
 * Node writes five numbers before its cache entries, and V8 code starts with a number that has this upper
 * half.
 */
const NODES_HEADER_BYTES = 20;
const V8_CODE = 0xc0de;

/** Cached sources without types, by whether the compiling process or a later one wrote them. */
function keptSources(): { before: string[]; after: string[] } {
  const compiledMs = statSync(RECORD).mtimeMs;
  const [folder = ''] = readdirSync(scratch).filter((name) => name.startsWith('v'));
  const kept = readdirSync(join(scratch, folder)).map((name) => join(scratch, folder, name));
  const sources = kept.filter((path) => readFileSync(path).readUInt16LE(NODES_HEADER_BYTES + 2) !== V8_CODE);
  const [before, after] = [true, false].map((isBefore) =>
    sources
      .filter((path) => statSync(path).mtimeMs <= compiledMs === isBefore)
      .map((path) => readFileSync(path, 'utf8').slice(NODES_HEADER_BYTES)),
  );
  return { before: before!, after: after! };
}

test('the first start compiles every source before it has threads or children, and the second start compiles none', async () => {
  const environment = { NODE_COMPILE_CACHE: scratch };
  const first = await smallService({ environment, isFromSource: true });
  try {
    const client = new Trainyard({ baseUrl: first.url, apiKey: first.apiKey, maxRetries: 0 });
    const base = (await client.servedModels.list()).data[0]!.id;
    const model = await client.models.register({ project: 'compiled', name: 'kept', base_model: base });
    const job = await client.trainingJobs.create({
      model_id: model.id,
      trajectory_groups: [await scoredGroup(client, 'kept')],
      experimental_config: {},
    });
    expect(await client.trainingJobs.gradientSteps(job.id)).toHaveLength(1);
    expect(await first.stop()).toBe(0);
  } finally {
    await first.close();
  }
  const { before, after } = keptSources();
  expect(before.length).toBeGreaterThan(900);
  // The two that the service needs to compile the others.
  expect(after.filter((source) => !source.includes('compileSources('))).toEqual([]);

  const compiledMs = statSync(RECORD).mtimeMs;
  const second = await smallService({ environment, isFromSource: true });
  await second.close();
  expect(statSync(RECORD).mtimeMs).toBe(compiledMs);
  expect(keptSources().before).toHaveLength(before.length);
});
