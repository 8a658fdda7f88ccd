/** Commands of docs/guide/operations.md that need a shared database, run unchanged. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { PostgresCluster } from '@trainyard/store/testing';
import { expect, onTestFinished, test } from 'vitest';

import { blocksOf } from '../support/doc-blocks.ts';
import { runBlock } from '../support/run-block.ts';
import { smallService } from '../support/small-service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const PAGE = 'docs/guide/operations.md';

test('the commands for several processes work as on the page', { timeout: 300_000 }, async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  const cluster = await PostgresCluster.start(programs);
  onTestFinished(() => cluster.stop());
  const folder = mkdtempSync(join(tmpdir(), 'trainyard-operations-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const dataDirectory = join(folder, 'data');
  mkdirSync(dataDirectory);
  const environment = { TRAINYARD_DATABASE: await cluster.createSchema() };
  const service = await smallService({ dataDirectory, environment });
  onTestFinished(async () => void (await service.stop()));
  const env = {
    ...environment,
    TRAINYARD_DATA_DIR: dataDirectory,
    PATH: `${join(ROOT, 'node_modules/.bin')}:${process.env['PATH']}`,
  };
  const blocks = blocksOf(PAGE).filter(({ mark }) => mark === 'cluster');
  expect(blocks.length).toBeGreaterThan(1);
  let output = '';
  for (const block of blocks) {
    const run = await runBlock(block, { cwd: folder, env });
    expect({ at: `${PAGE}:${block.line}`, code: run.code, errors: run.code === 0 ? '' : run.errors }).toEqual({
      at: `${PAGE}:${block.line}`,
      code: 0,
      errors: '',
    });
    output += run.output;
  }
  // The doctor reports each line that the table explains.
  for (const name of [
    'database_server',
    'database_clock',
    'database_locks',
    'database_notifications',
    'blobs',
    'waiting_jobs',
  ])
    expect(output).toContain(`"name": "${name}"`);
  expect(output).toContain('releases of the members');
});

test('every alarm of the rules is explained, and uses existing series', () => {
  const rules = readFileSync(join(ROOT, 'docs/guide/prometheus-rules.yaml'), 'utf8');
  const page = readFileSync(join(ROOT, PAGE), 'utf8');
  const alarms = [...rules.matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
  expect(alarms.length).toBeGreaterThan(5);
  expect([...page.matchAll(/^\| `(Trainyard\w+)` \|/gm)].map(([, name]) => name)).toEqual(alarms);
  const known = new Set(
    [...readFileSync(join(ROOT, 'docs/reference/metrics.md'), 'utf8').matchAll(/^\| `([a-z_:0-9]+)` \|/gm)].map(
      ([, name]) => name,
    ),
  );
  const named = [...rules.matchAll(/\b(?:trainyard|vllm|http)[_:][a-z_0-9]+/g)].map(([name]) => name);
  expect(named.filter((name) => !known.has(name.replace(/_(?:bucket|count|sum)$/, '')) && !known.has(name))).toEqual(
    [],
  );
});
