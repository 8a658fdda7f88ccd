import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { type Outage, Trainyard, TrainyardConnectionError } from '../index.ts';
import { PolicyModel, train } from './index.ts';

const MODEL = { id: 'm1', entity: 'e', project: 'p', name: 'n', base_model: 'base', run_id: 'r', lora: {} };
const JOB = { id: 'job-1', status: 'succeeded', start_step: 0 };
const EVENTS = [
  { id: '1', type: 'gradient_step', data: { loss: 1 } },
  { id: '2', type: 'training_ended', data: { step: 7 } },
];

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** A service with one job that is away between these times, in seconds from now. */
function service(...absences: readonly (readonly [from: number, to: number])[]) {
  const begin = Date.now();
  const keys: (string | null)[] = [];
  const fetch = (async (url: string, init: RequestInit) => {
    const headers = new Headers(init.headers);
    const seconds = (Date.now() - begin) / 1000;
    if (init.method === 'POST') keys.push(headers.get('idempotency-key'));
    if (absences.some(([from, to]) => seconds >= from && seconds < to)) throw new TypeError('fetch failed');
    if (init.method === 'POST') return Response.json(JOB);
    if (!url.includes('/events')) return Response.json(JOB);
    const last = headers.get('last-event-id');
    const event = EVENTS[last === null ? 0 : EVENTS.findIndex(({ id }) => id === last) + 1];
    // Ten seconds per event, and each stream ends with it, as when a service goes away.
    await new Promise((resolve) => setTimeout(resolve, 10_000));
    const text = `id: ${event!.id}\ndata: ${JSON.stringify(event)}\n\n`;
    return new Response(text, { headers: { 'content-type': 'text/event-stream' } });
  }) as typeof globalThis.fetch;
  const client = new Trainyard({ baseUrl: 'http://h/v1', apiKey: 'k', fetch });
  return { keys, model: new PolicyModel(client, MODEL as never) };
}

async function settled<Result>(running: Promise<Result>): Promise<Result | Error> {
  const caught = running.catch((error: Error) => error);
  await vi.runAllTimersAsync();
  return await caught;
}

test.each([
  ['while the job is submitted', [[0, 43]]],
  ['while the job runs', [[5, 48]]],
  ['when the job has ended', [[20, 63]]],
  [
    'three times',
    [
      [0, 43],
      [50, 93],
      [100, 143],
    ],
  ],
] as const)('a restart of 43 s %s is waited for, with a notice', async (_name, absences) => {
  const { keys, model } = service(...absences);
  const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  const trained = await settled(train(model, []));
  expect(trained).toMatchObject({ job: JOB, step: 7, gradientSteps: [{ loss: 1 }] });
  expect(warn.mock.calls.length).toBeGreaterThan(0);
  expect(warn.mock.calls.length).toBeLessThanOrEqual(absences.length);
  expect(warn.mock.calls[0]![0]).toBe('Trainyard: http://h/v1 is unreachable (fetch failed). Waiting up to 10 min.');
  expect(new Set(keys).size, 'one key for all tries: one job').toBe(1);
  expect(keys[0]).not.toBeNull();
});

test('a service that stays away is an error after ten minutes, with the job and how to rejoin it', async () => {
  const { model } = service([5, Infinity]);
  const outages: Outage[] = [];
  const began = Date.now();
  const error = await settled(train(model, [], {}, { onOutage: (outage) => void outages.push(outage) }));
  expect(error).toBeInstanceOf(TrainyardConnectionError);
  expect(error).toMatchObject({ jobId: 'job-1' });
  expect((error as Error).message).toContain("wait for it with `client.trainingJobs.wait('job-1')`");
  expect(outages).toHaveLength(1);
  const minutes = (Date.now() - began) / 60_000;
  expect(minutes).toBeGreaterThan(9.9);
  expect(minutes).toBeLessThan(11);
});

test('maxOutageMs shortens the patience', async () => {
  const { model } = service([5, Infinity]);
  const began = Date.now();
  const error = await settled(train(model, [], {}, { maxOutageMs: 20_000, onOutage: () => undefined }));
  expect(error).toBeInstanceOf(TrainyardConnectionError);
  expect(Date.now() - began).toBeLessThan(45_000);
});
