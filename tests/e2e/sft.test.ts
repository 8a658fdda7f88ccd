import { afterAll, beforeAll, expect, it } from 'vitest';

import { Trainyard, TrainyardApiError } from '@trainyard/sdk';

import { ownService, type OwnService } from '../../scripts/own-service.ts';
import { hostOf } from '../support/processes.ts';

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
  service = await ownService();
  client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
  base = (await client.listModels()).data[0]!.id;
});

afterAll(async () => {
  await service.close();
});

it('conversations are uploaded, learnt although the trainer host is killed on the way, and answered', async () => {
  const artifact = { entity: 'local', project: 'sft', name: 'facts' };
  const uploaded = await client.uploadArtifact(artifact, LINES, { fileName: 'facts.jsonl' });
  expect(uploaded).toMatchObject({ version: 'v0', num_lines: 2, file_name: 'facts.jsonl' });
  expect(await client.getArtifact(artifact, 'latest')).toEqual(uploaded);
  expect((await client.listArtifacts(artifact)).data).toEqual([uploaded]);
  const settings = { experimentalConfig: { epochs: 12, warmup_steps: 2 } };
  const digests: string[] = [];
  for (const name of ['undisturbed', 'disturbed']) {
    const model = await client.registerModel({ project: 'sft', name, baseModel: base });
    const job = await client.createSftTrainingJob(model.id, uploaded.url, { learning_rate: 1e-3 }, settings);
    if (name === 'disturbed') await client.deleteArtifact(artifact, 'v0');
    const seen: string[] = [];
    for await (const event of client.watchTrainingJob(job.id)) {
      if (event.type !== 'warning') seen.push(event.type);
      if (name === 'disturbed' && seen.length === 4) process.kill(hostOf(service.pid, 'trainer'), 'SIGKILL');
    }
    expect(seen).toEqual(['training_started', ...Array.from({ length: 12 }, () => 'gradient_step'), 'training_ended']);
    expect((await client.getTrainingJob(job.id)).status).toBe('succeeded');
    for (const [question, reply] of FACTS) {
      const messages = [{ role: 'user', content: question }];
      const answer = await client.chat({ model: name, messages, temperature: 0, max_tokens: 16 });
      expect(answer.choices[0]!.message.content).toBe(reply);
      digests.push(answer.system_fingerprint ?? 'none');
    }
    const checkpoints = await client.listCheckpoints(model.id);
    expect(checkpoints.data.map(({ step }) => step)).toEqual([0, 1]);
    expect(checkpoints.data[1]!.metrics['train/loss']).toBeGreaterThan(0);
  }
  console.log(`fingerprints of both: ${[...new Set(digests)].join(' ')}`);
  expect(new Set(digests).size).toBe(1);
}, 300_000);

it('an upload of many megabytes is refused at its first bad line, over a socket, and the next one is taken', async () => {
  const artifact = { entity: 'local', project: 'sft', name: 'large' };
  const line = `${JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(1000) }] })}\n`;
  const good = line.repeat(20_000);
  const refused = client.uploadArtifact(artifact, `${line}{"messages": 1}\n${good}`);
  await expect(refused).rejects.toThrow('`line.2.messages`: Input should be a valid list, got 1');
  await expect(refused).rejects.toBeInstanceOf(TrainyardApiError);
  const started = performance.now();
  const uploading = client.uploadArtifact(artifact, good);
  const waits: number[] = [];
  let isDone = false;
  void uploading.finally(() => (isDone = true));
  while (!isDone) {
    const asked = performance.now();
    await client.isHealthy();
    waits.push(performance.now() - asked);
  }
  const { num_lines: numLines, size_bytes: sizeBytes } = await uploading;
  expect([numLines, sizeBytes]).toEqual([20_000, good.length]);
  const seconds = (performance.now() - started) / 1000;
  console.log(
    `${(sizeBytes / 1e6).toFixed(0)} MB uploaded in ${seconds.toFixed(1)} s; health was answered within ${Math.max(...waits).toFixed(0)} ms meanwhile`,
  );
  expect(waits.length, 'answers while it came in').toBeGreaterThan(0);
});
