import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import { afterAll, beforeAll, expect, it } from 'vitest';

import { Trainyard } from '@trainyard/sdk';

import type { OwnService } from '../../scripts/own-service.ts';
import { residentMb } from '../support/processes.ts';
import { smallService } from '../support/small-service.ts';

/** The API process: no native compute inside, and never busy for long. */

let service: OwnService;
let client: Trainyard;
let modelId: string;

beforeAll(async () => {
  service = await smallService({ environment: { TRAINYARD_KEEP_ALIVE_SECONDS: '620' } });
  client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
  const base = (await client.servedModels.list()).data[0]!.id;
  modelId = (await client.models.register({ project: 'api', name: 'large', base_model: base })).id;
});

afterAll(async () => {
  await service.close();
});

/** A job of about `megabytes` whose groups have equal rewards, so that nothing remains to train. */
function largeJob(megabytes: number): Buffer {
  const entry = (index: number) => ({
    token: `token_id:${1000 + (index % 1000)}`,
    logprob: -0.123456789,
    bytes: [32, 97],
    top_logprobs: [],
  });
  const choice = {
    finish_reason: 'stop',
    message: { role: 'assistant', content: 'text' },
    logprobs: { content: Array.from({ length: 2_000 }, (_, index) => entry(index)) },
  };
  const trajectory = { reward: 1, messages_and_choices: [{ role: 'user', content: 'Hello' }, choice] };
  const size = JSON.stringify(trajectory).length;
  const group = { trajectories: Array.from({ length: 16 }, () => trajectory) };
  const numGroups = Math.round((megabytes * 1e6) / (16 * size));
  return Buffer.from(
    JSON.stringify({ model_id: modelId, trajectory_groups: Array.from({ length: numGroups }, () => group) }),
  );
}

it('has neither llama.cpp nor ONNX Runtime nor the library that calls them in memory', async () => {
  await client.chat.completions.create({ model: '', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 2 });
  const mapped = readFileSync(`/proc/${service.pid}/maps`, 'utf8');
  expect(mapped).toContain('node');
  expect(mapped).not.toMatch(/koffi|onnxruntime|libllama|libggml/i);
});

it('keeps idle connections as long as it is set to, and announces it', async () => {
  const response = await fetch(`${service.url}/livez`);
  await response.text();
  expect(response.headers.get('keep-alive')).toBe('timeout=620');
});

it('answers health checks while receiving a job of 60 MB', { timeout: 120_000 }, async () => {
  const body = largeJob(60);
  const before = residentMb(service.pid);
  const latencies: number[] = [];
  let isPosting = true;
  const poll = async () => {
    while (isPosting) {
      const startedAt = performance.now();
      const response = await fetch(`${service.url}/health`);
      await response.text();
      latencies.push(performance.now() - startedAt);
      expect(response.status).toBe(200);
      await sleep(5);
    }
  };
  const polling = poll();
  const startedAt = performance.now();
  const response = await fetch(`${service.url}/preview/training-jobs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
    body,
  });
  const seconds = (performance.now() - startedAt) / 1000;
  const { id } = (await response.json()) as { id: string };
  isPosting = false;
  await polling;
  expect(response.status).toBe(200);
  latencies.sort((first, second) => first - second);
  const at = (share: number) => latencies[Math.floor(share * (latencies.length - 1))]!;
  const { peak } = residentMb(service.pid);
  console.log(
    `${(body.length / 1e6).toFixed(0)} MB in ${seconds.toFixed(1)} s; ${latencies.length} health answers meanwhile: p50 ${at(0.5).toFixed(1)} ms, ` +
      `p99 ${at(0.99).toFixed(0)} ms, longest ${at(1).toFixed(0)} ms; memory ${before.now.toFixed(0)} MB before, ${peak.toFixed(0)} MB at most`,
  );
  // When the API process parsed it, the same body delayed one health answer for its whole duration.
  expect(latencies.length, 'answers during the upload').toBeGreaterThan(10);
  expect(peak - before.now).toBeLessThan(1_500);
  expect(await client.trainingJobs.gradientSteps(id)).toEqual([]);
});
