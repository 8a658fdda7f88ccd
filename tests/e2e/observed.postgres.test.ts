/** One job in several processes of a service: its trace, its log lines, its metrics and its charged usage. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

import { Trainyard } from '@trainyard/sdk';
import { OtlpReceiver } from '@trainyard/server/testing';
import { PostgresCluster } from '@trainyard/store/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { programPath } from '../../scripts/program-path.ts';
import { tenLongGroups } from '../support/groups.ts';
import { testModel } from '../support/model.ts';
import { smallService } from '../support/small-service.ts';

const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const MAIN = programPath('packages/cli/src/main.ts');
const CLIENT = { trace: '0af7651916cd43dd8448eb211c80319c', span: 'b7ad6b7169203331' };
const NUM_STEPS = 3;
const folder = mkdtempSync(join(tmpdir(), 'trainyard-observed-'));
const trainers = new Set<ChildProcess>();
let cluster: PostgresCluster;
let receiver: OtlpReceiver;
let shared: Record<string, string>;
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
  receiver = await OtlpReceiver.start();
  shared = {
    TRAINYARD_DATABASE: await cluster.createSchema(),
    TRAINYARD_LOG_FORMAT: 'json',
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint,
    OTEL_BSP_SCHEDULE_DELAY: '20',
  };
});
afterAll(async () => {
  for (const trainer of trainers) trainer.kill('SIGKILL');
  await Promise.all([cluster.stop(), receiver.close()]);
  rmSync(folder, { recursive: true });
});

/** Its own data folder with blobs shared by all parts. */
function dataFolder(name: string): string {
  const [blobs, own] = [join(folder, 'blobs'), join(folder, name)];
  mkdirSync(blobs, { recursive: true });
  mkdirSync(own);
  symlinkSync(blobs, join(own, 'blobs'));
  return own;
}

interface Trainer {
  readonly child: ChildProcess;
  readonly metricsUrl: string;
  /** Lines of its standard error. */
  readonly lines: string[];
}

async function startTrainer(name: string): Promise<Trainer> {
  const args = ['serve', '--json', '--role', 'trainer', '--metrics-listen', '0', '--data-dir', dataFolder(name)];
  const child = spawn(process.execPath, ['--conditions=@trainyard/source', MAIN, ...args], {
    env: { ...process.env, ...shared, TRAINYARD_MODEL: testModel().small, TRAINYARD_MODEL_ID: BASE },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  trainers.add(child);
  const lines: string[] = [];
  createInterface(child.stderr).on('line', (line) => lines.push(line));
  for await (const line of createInterface(child.stdout)) {
    const { metrics_url: metricsUrl } = JSON.parse(line) as { metrics_url: string };
    return { child, metricsUrl, lines };
  }
  throw new Error(`the trainer ended before it was ready:\n${lines.join('\n')}`);
}

async function end({ child }: Trainer, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  trainers.delete(child);
  child.kill(signal);
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

test('a job run by two trainers is one trace, one charge, and log lines with the id of its request', async () => {
  const api = await smallService({
    dataDirectory: dataFolder('api'),
    environment: { ...shared, TRAINYARD_ROLE: 'api,engine' },
  });
  try {
    const client = new Trainyard({ baseUrl: api.url, apiKey: api.apiKey, maxRetries: 0 });
    const model = await client.models.register({ project: 'observed', name: 'agent', base_model: BASE });
    const answer = await fetch(`${api.url}/preview/training-jobs`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${api.apiKey}`,
        'content-type': 'application/json',
        'x-request-id': 'order-1',
        'openai-project': 'team',
        traceparent: `00-${CLIENT.trace}-${CLIENT.span}-01`,
      },
      body: JSON.stringify({
        model_id: model.id,
        trajectory_groups: await tenLongGroups(client, 'agent'),
        experimental_config: { learning_rate: 1e-4, gradient_steps: NUM_STEPS },
      }),
    });
    assert.equal(answer.status, 200, await answer.clone().text());
    const { id: jobId } = (await answer.json()) as { id: string };

    const dying = await startTrainer('one');
    for await (const event of client.trainingJobs.watch(jobId)) if (event.type === 'gradient_step') break;
    await end(dying, 'SIGKILL');
    const following = await startTrainer('two');
    const steps = await client.trainingJobs.gradientSteps(jobId);
    expect(steps).toHaveLength(NUM_STEPS);

    // Charged once, including steps that the second trainer repeated.
    const trained = steps.reduce((sum, step) => sum + Number(step['num_trainable_tokens']), 0);
    const usage = await client.usage.read({ by: ['kind', 'key', 'project', 'model'] });
    const charged = usage.data.filter(({ kind }) => kind === 'training');
    expect(charged).toMatchObject([
      { num_requests: 1, completion_tokens: trained, project: 'team', model: 'local/observed/agent' },
    ]);
    const asked = ['usage', '--by', 'kind', '--json', '--url', api.url];
    const { stdout } = await promisify(execFile)(process.execPath, ['--conditions=@trainyard/source', MAIN, ...asked], {
      env: { ...process.env, TRAINYARD_API_KEY: api.apiKey },
    });
    expect(stdout).toContain(`"completion_tokens": ${trained}`);

    await expect
      .poll(async () => await (await fetch(following.metricsUrl)).text())
      .toContain('trainyard_jobs_ended_total{kind="rl",outcome="succeeded"} 1');
    const figures = await (await fetch(following.metricsUrl)).text();
    expect(figures).toMatch(/^trainyard_jobs_claimed_total\{kind="rl"\} 1$/m);
    expect(Number(/^trainyard_gradient_steps_total\{kind="rl"\} (\d+)$/m.exec(figures)?.[1])).toBeGreaterThan(0);
    // For its own steps: if the other one's snapshots came along, only the last may be left.
    expect(figures).toMatch(/^trainyard_snapshot_bytes_total \d+$/m);
    // Each process watches its machine.
    for (const name of ['disk_free_bytes', 'disk_sync_seconds', 'open_files', 'max_open_files'])
      expect(Number(new RegExp(`^trainyard_${name} (\\S+)$`, 'm').exec(figures)?.[1])).toBeGreaterThan(0);
    const { processes } = await client.hosts.read();
    expect(processes.map(({ role, machine_trouble: trouble }) => [role, trouble])).toEqual([
      ['api', null],
      ['trainer', null],
    ]);
    const apiFigures = await (await fetch(new URL('/metrics', api.url))).text();
    expect(apiFigures).not.toContain('trainyard_gradient_steps_total');

    await end(following, 'SIGTERM');
    await api.stop();
    const whole = receiver.only('job rl');
    expect(whole).toMatchObject({ traceId: jobId.replaceAll('-', ''), parentSpanId: '' });
    const made = receiver.only('POST /v1/preview/training-jobs');
    expect(made).toMatchObject({ traceId: CLIENT.trace, parentSpanId: CLIENT.span });
    expect(whole.links).toEqual([{ traceId: made.traceId, spanId: made.spanId }]);
    const attempts = receiver.named('attempt');
    const last = attempts.find(({ attributes }) => attributes['trainyard.job.outcome'] === 'succeeded');
    expect(last?.parentSpanId).toBe(whole.spanId);
    const inTrace = receiver.spans.filter(({ traceId }) => traceId === whole.traceId);
    const ofTheLast = inTrace.filter(({ parentSpanId }) => parentSpanId === last?.spanId).map(({ name }) => name);
    expect(ofTheLast).toContain('gradient step');
    expect(ofTheLast).toContain('checkpoint commit');
    const ofTheFirst = inTrace.filter(
      ({ name, parentSpanId }) => name === 'gradient step' && parentSpanId !== last?.spanId,
    );
    expect(ofTheFirst.length).toBeGreaterThan(0);
    expect(new Set(inTrace.map(({ resource }) => resource['service.instance.id'])).size).toBe(2);
    expect(new Set(receiver.spans.map(({ resource }) => resource['trainyard.role']))).toEqual(
      new Set(['api,engine', 'trainer']),
    );
    const [chat] = receiver.named('chat agent');
    expect(chat?.attributes['gen_ai.response.model']).toContain('local/observed/agent');
    for (const body of receiver.bodies) {
      expect(body).not.toContain('Say something about');
      expect(body).not.toContain(api.apiKey);
    }

    for (const { lines } of [dying, following]) {
      const entries = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
      const ofTheJob = entries.filter((entry) => entry['job_id'] === jobId);
      expect(ofTheJob.length).toBeGreaterThan(0);
      for (const entry of ofTheJob)
        expect(entry).toMatchObject({ role: 'trainer', request_id: 'order-1', trace_id: whole.traceId });
    }
    const instances = [dying, following].map(
      ({ lines }) => (JSON.parse(lines[0] ?? '{}') as object)['instance' as never],
    );
    expect(new Set(instances).size).toBe(2);
  } finally {
    await api.stop();
  }
}, 400_000);
