/** The demo with a running service: it shows progress inside a step, and its model stays. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { Trainyard } from '@trainyard/sdk';
import { afterAll, beforeAll, expect, it } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { smallService } from '../support/small-service.ts';

const MAIN = resolve(import.meta.dirname, '../../examples/demo/main.ts');
const scratch = mkdtempSync(join(tmpdir(), 'trainyard-demo-'));
let service: OwnService;
beforeAll(async () => void (service = await smallService()));
afterAll(async () => {
  await service?.close();
  rmSync(scratch, { recursive: true });
});

async function demo(...args: string[]): Promise<string> {
  const own = ['--api-key', service.apiKey, '--steps', '1'];
  const child = spawn(process.execPath, ['--conditions=@trainyard/source', MAIN, ...own, ...args], { cwd: scratch });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  const code = await new Promise((done) => child.once('close', done));
  expect({ code, output: code === 0 ? '' : output }).toEqual({ code: 0, output: '' });
  return output;
}

it('trains on the service of --url, and keeps the model there', { timeout: 600_000 }, async () => {
  const output = await demo('--url', service.url);
  const [, name = ''] = /^the model stays on the service: (\S+)$/m.exec(output) ?? [];
  expect(name).toMatch(/^local\/demo\/demo-concise-/);
  const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
  expect((await client.servedModels.retrieve(name)).id).toBe(`${name}:step1`);
  const { id } = (await client.models.list().toArray(1))[0]!;
  const page = `${service.url.replace(/\/v1$/, '')}/models/${id}`;
  expect(output).toContain(`watch it learn: ${page} `);
  expect(output).toContain(`view it: ${page}\n`);
  expect(output).toMatch(/^ {4}0 {3}0\.\d{3} /m);
});

it(
  'finds the service that runs on the data folder, and removes the model on request',
  { timeout: 600_000 },
  async () => {
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
    const before = (await client.servedModels.list()).data.length;
    expect(await demo('--data-dir', service.dataDirectory, '--delete-model')).not.toContain('the model stays');
    expect((await client.servedModels.list()).data).toHaveLength(before);
  },
);
