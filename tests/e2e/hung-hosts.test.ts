import { afterAll, beforeAll, expect, it } from 'vitest';

import { Trainyard } from '@trainyard/sdk';

import type { OwnService } from '../../scripts/own-service.ts';
import { errorOfCutStream, longStream } from '../support/cut-stream.ts';
import { scoredGroup } from '../support/groups.ts';
import { hostOf } from '../support/processes.ts';
import { smallService } from '../support/small-service.ts';

/** A stopped host does nothing without dying: the service must notice, end it and start another. */

let service: OwnService;
let client: Trainyard;
let base: string;

beforeAll(async () => {
  service = await smallService();
  client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
  base = (await client.servedModels.list()).data[0]!.id;
});

afterAll(async () => {
  await service.close();
});

const hello = () =>
  client.chat.completions.create({ model: base, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 3 });

/** Messages of `/health` until it is healthy again, without numbers. */
async function messagesUntilHealthy(): Promise<string[]> {
  const reports = new Set<string>();
  for (;;) {
    const response = await fetch(`${service.url}/health`);
    const { status, reasons } = (await response.json()) as {
      status: string;
      reasons: { part: string; reason: string }[];
    };
    if (status === 'healthy' && reports.size > 0) return [...reports];
    for (const { part, reason } of reasons) reports.add(`${part}: ${reason.replaceAll(/\d+/g, 'N')}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

it('a stopped engine host ends its requests with one clear error each and is replaced', async () => {
  await hello();
  const response = await longStream(service, base);
  const stopped = hostOf(service.pid, 'engine');
  process.kill(stopped, 'SIGSTOP');
  const reports = messagesUntilHealthy();
  const error = await errorOfCutStream(response);
  expect(error.code).toBe('engine.host_lost');
  expect(error.message).toContain('it gave no sign of life for');
  expect((await hello()).usage.completion_tokens).toBeGreaterThan(0);
  expect(await reports).toContain('inference: no sign of life for N s');
  expect(hostOf(service.pid, 'engine')).not.toBe(stopped);
}, 240_000);

it('a stopped trainer host loses its cores, sampling continues, and so does the job', async () => {
  const model = await client.models.register({ project: 'hung', name: 'stopped', base_model: base });
  const group = await scoredGroup(client, 'stopped', { maxTokens: 4 });
  const job = await client.trainingJobs.create({
    model_id: model.id,
    trajectory_groups: [group],
    experimental_config: { learning_rate: 1e-4 },
  });
  for await (const event of client.trainingJobs.watch(job.id)) if (event.type === 'training_started') break;
  const stopped = hostOf(service.pid, 'trainer');
  process.kill(stopped, 'SIGSTOP');
  const reports = messagesUntilHealthy();
  expect((await hello()).usage.completion_tokens).toBeGreaterThan(0);
  expect(await reports).toContain('training: no sign of life for N s');
  expect(hostOf(service.pid, 'trainer')).not.toBe(stopped);
  expect(await client.trainingJobs.gradientSteps(job.id)).toHaveLength(1);
}, 240_000);
