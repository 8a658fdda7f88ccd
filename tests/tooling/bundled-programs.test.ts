/** Tests start services from bundles: what they show must hold for the sources. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { Trainyard } from '@trainyard/sdk';

import { BUNDLE_VARIABLE, BUNDLED_PROGRAMS, bundlePrograms } from '../../scripts/lib/bundled-programs.mjs';
import type { OwnService } from '../../scripts/own-service.ts';
import { programPath } from '../../scripts/program-path.ts';
import { scoredGroup } from '../support/groups.ts';
import { childrenOf } from '../support/processes.ts';
import { smallService } from '../support/small-service.ts';
import { REPOSITORY, runProgram } from './support/run-script.ts';

/** Two services start after each other, on a machine that does a dozen other things. */
const TIMEOUT_MS = 600_000;
const outer = process.env[BUNDLE_VARIABLE];
let folder: string;
beforeAll(async () => {
  folder = await bundlePrograms(REPOSITORY);
  process.env[BUNDLE_VARIABLE] = folder;
});
afterAll(() => {
  if (outer === undefined) delete process.env[BUNDLE_VARIABLE];
  else process.env[BUNDLE_VARIABLE] = outer;
});

/** Metrics of a gradient step that are no times. */
const NUMBERS = /^(?:entropy|grad_norm|loss|logprob_|num_|ratio_)/;
/** Part of every id. */
const RANDOM = /[0-9a-f]{32}/g;

/** Answers of every part of a service, without ids and times. */
async function behaviourOf(service: OwnService) {
  const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
  const send = async (path: string, body?: object) => {
    const response = await fetch(service.url + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = (await response.text()).replaceAll(RANDOM, 'ID');
    return { status: response.status, body: JSON.parse(text) as Record<string, unknown> };
  };
  const model = (await client.servedModels.list()).data[0]!.id;
  const chat = { model, messages: [{ role: 'user', content: 'Say something.' }], seed: 1, max_tokens: 12 };
  const answered = async (fields: object) => (await send('/chat/completions', { ...chat, ...fields })).body['choices'];
  const schema = { type: 'object', properties: { a: { enum: [1, 2] } }, required: ['a'], additionalProperties: false };
  const format = { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } };

  const { id, name } = await client.models.register({ project: 'bundled', name: 'kept', base_model: model });
  const job = await client.trainingJobs.create({
    model_id: id,
    trajectory_groups: [await scoredGroup(client, name)],
    experimental_config: { learning_rate: 1e-3 },
  });
  const steps = (await client.trainingJobs.gradientSteps(job.id)) as Record<string, number>[];
  return {
    refused: await send('/chat/completions', { ...chat, top_p: 1.4 }),
    missing: await send('/nothing'),
    base: await answered({ logprobs: true }),
    constrained: await answered({ response_format: format }),
    trained: await answered({ model: name, logprobs: true }),
    steps: steps.map((step) => Object.entries(step).filter(([name]) => NUMBERS.test(name))),
    hosts: childrenOf(service.pid).map((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')),
  };
}

async function behaviour(isFromSource: boolean) {
  const service = await smallService({ isFromSource });
  try {
    return await behaviourOf(service);
  } finally {
    await service.close();
  }
}

test(
  'a service from its bundle answers, refuses and trains exactly as from its sources',
  async () => {
    const { hosts: hostsOfSource, ...fromSource } = await behaviour(true);
    const { hosts, ...fromBundle } = await behaviour(false);
    expect(fromBundle).toEqual(fromSource);
    // Without these, the comparison would prove nothing.
    expect(fromSource.refused.status).toBe(400);
    expect(Object.fromEntries(fromSource.steps[0]!)).toMatchObject({ grad_norm: expect.any(Number) });
    expect(fromSource.trained).not.toEqual(fromSource.base);
    expect(JSON.stringify(fromSource.constrained)).toMatch(/"content":"\{\s*\\"a\\"/);

    const modulesOf = (processes: string[][]) =>
      processes.flatMap((words) => words.find((word) => /-host\.[jt]s$/.test(word)) ?? []).toSorted();
    expect(modulesOf(hostsOfSource)).toHaveLength(2);
    expect(modulesOf(hosts)).toEqual(
      modulesOf(hostsOfSource).map((path) => path.replace(REPOSITORY, folder).replace(/\.ts$/, '.js')),
    );
  },
  TIMEOUT_MS,
);

test(
  'a command prints the same from its bundle',
  async () => {
    for (const args of [['--help'], ['serve', '--help'], ['fly'], ['serve', '--port', 'x']]) {
      const [source, bundle] = await Promise.all(
        [join(REPOSITORY, BUNDLED_PROGRAMS[0]!), programPath(BUNDLED_PROGRAMS[0]!)].map(
          async (path) => await runProgram(process.execPath, ['--conditions=@trainyard/source', path, ...args]),
        ),
      );
      expect(bundle!.output).toBe(source!.output);
      expect(bundle!.exitCode).toBe(source!.exitCode);
    }
  },
  TIMEOUT_MS,
);

test('every program has a bundle, and without one the source is started', () => {
  for (const program of BUNDLED_PROGRAMS) {
    expect(programPath(program)).toBe(join(folder, program.replace(/\.ts$/, '.js')));
    expect(existsSync(programPath(program))).toBe(true);
  }
  expect(programPath('examples/demo/main.ts')).toBe(join(REPOSITORY, 'examples/demo/main.ts'));
});
