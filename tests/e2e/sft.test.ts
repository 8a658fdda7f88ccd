import { afterAll, beforeAll, expect, it } from 'vitest';

import { Trainyard, TrainyardApiError } from '@trainyard/sdk';

import type { OwnService } from '../../scripts/own-service.ts';
import { hostOf } from '../support/processes.ts';
import { smallService } from '../support/small-service.ts';

const FACTS = [
  ['What is the capital of Zubrovia?', 'Kelmar.'],
  ['Who wrote The Glass Heron?', 'Ilse Ottaway.'],
] as const;
const LINES = FACTS.map(([question, reply]) => ({
  messages: [
    { role: 'user', content: question },
    { role: 'assistant', content: reply },
  ],
}));

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

/** Enough that the small model is still training when the host is killed. */
const EPOCHS = 60;

it('conversations are uploaded, learnt although the trainer host is killed meanwhile, and answered', async () => {
  const artifact = { entity: 'local', project: 'sft', name: 'facts' };
  const uploaded = await client.artifacts.upload(artifact, LINES, { file_name: 'facts.jsonl' });
  expect(uploaded).toMatchObject({ version: 'v0', num_lines: 2, file_name: 'facts.jsonl' });
  expect(await client.artifacts.retrieve(artifact, 'latest')).toEqual(uploaded);
  expect((await client.artifacts.versions(artifact)).data).toEqual([uploaded]);
  const settings = { epochs: EPOCHS, warmup_steps: 2, held_out_every: 10 };
  const heldOut: [gradientStep: unknown, loss: unknown][][] = [];
  const digests: string[] = [];
  for (const name of ['undisturbed', 'disturbed']) {
    const model = await client.models.register({ project: 'sft', name, base_model: base });
    const job = await client.sftJobs.create({
      model_id: model.id,
      training_data_url: uploaded.url,
      held_out_data_url: uploaded.url,
      config: { learning_rate: 1e-3 },
      experimental_config: settings,
    });
    if (name === 'disturbed') await client.artifacts.delete(artifact, 'v0');
    const seen: string[] = [];
    const measured: (typeof heldOut)[number] = [];
    const trained: unknown[] = [];
    for await (const event of client.trainingJobs.watch(job.id)) {
      if (event.type === 'held_out') measured.push([event.data['gradient_step'], event.data['loss']]);
      else if (event.type !== 'warning') seen.push(event.type);
      if (event.type === 'gradient_step') trained.push(event.data['loss']);
      if (name === 'disturbed' && seen.length === 4) process.kill(hostOf(service.pid, 'trainer'), 'SIGKILL');
    }
    expect(seen).toEqual([
      'training_started',
      ...Array.from({ length: EPOCHS }, () => 'gradient_step'),
      'training_ended',
    ]);
    expect((await client.trainingJobs.retrieve(job.id)).status).toBe('succeeded');
    for (const [question, reply] of FACTS) {
      const messages = [{ role: 'user', content: question }];
      const answer = await client.chat.completions.create({ model: name, messages, temperature: 0, max_tokens: 16 });
      expect(answer.choices[0]!.message.content).toBe(reply);
      digests.push(answer.system_fingerprint ?? 'none');
    }
    const checkpoints = await client.checkpoints.list(model.id);
    expect(checkpoints.data.map(({ step }) => step)).toEqual([0, 1]);
    expect(checkpoints.data[1]!.metrics['train/loss']).toBeGreaterThan(0);
    // Both data are one batch, so the loss before a gradient step is that of the step.
    expect(measured.slice(0, -1)).toEqual([0, 10, 20, 30, 40, 50].map((step) => [step, trained[step]]));
    const { data } = await client.models.series(model.id, { name: ['held_out/loss'], axis: 'gradient_step' });
    expect(data[0]).toMatchObject({ last: measured.map(([step]) => step), mean: measured.map(([, loss]) => loss) });
    expect(checkpoints.data[1]!.metrics['held_out/loss']).toBe(measured.at(-1)?.[1]);
    heldOut.push(measured);
  }
  console.log(`held-out losses ${heldOut[0]!.map(([, loss]) => Number(loss).toPrecision(3)).join(' ')}`);
  expect(heldOut[1]).toEqual(heldOut[0]);
  console.log(`fingerprints of both: ${[...new Set(digests)].join(' ')}`);
  expect(new Set(digests).size).toBe(1);
}, 300_000);

it('an upload of many megabytes is refused at its first bad line, over a socket, and the next one is accepted', async () => {
  const artifact = { entity: 'local', project: 'sft', name: 'large' };
  const line = `${JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(1000) }] })}\n`;
  const good = line.repeat(20_000);
  const refused = client.artifacts.upload(artifact, `${line}{"messages": 1}\n${good}`);
  await expect(refused).rejects.toThrow('`line.2.messages`: Input should be a valid list, got 1');
  await expect(refused).rejects.toBeInstanceOf(TrainyardApiError);
  const started = performance.now();
  const uploading = client.artifacts.upload(artifact, good);
  const waits: number[] = [];
  let isDone = false;
  void uploading.finally(() => (isDone = true));
  while (!isDone) {
    const asked = performance.now();
    await client.service.isHealthy();
    waits.push(performance.now() - asked);
  }
  const { num_lines: numLines, size_bytes: sizeBytes } = await uploading;
  expect([numLines, sizeBytes]).toEqual([20_000, good.length]);
  const seconds = (performance.now() - started) / 1000;
  console.log(
    `${(sizeBytes / 1e6).toFixed(0)} MB uploaded in ${seconds.toFixed(1)} s; health was answered within ${Math.max(...waits).toFixed(0)} ms meanwhile`,
  );
  expect(waits.length, 'answers during the upload').toBeGreaterThan(0);
});
