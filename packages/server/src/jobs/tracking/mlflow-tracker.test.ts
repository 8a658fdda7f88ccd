import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { afterEach, beforeEach, expect, it, test } from 'vitest';

import { mlflowHarness } from '../../testing/mlflow-harness.ts';
import { runTrackerSuite } from '../../testing/run-tracker.suite.ts';
import { ScriptedMlflow } from '../../testing/scripted-mlflow.ts';
import { ScriptedTracker } from '../../testing/scripted-tracker.ts';
import { MlflowTracker } from './mlflow-tracker.ts';
import { openTracker } from './tracker-drivers.ts';

runTrackerSuite('MLflow, scripted', async () => {
  const server = await ScriptedMlflow.start();
  return mlflowHarness(server.url, () => server.close());
});

runTrackerSuite('in memory', async () => {
  const tracker = new ScriptedTracker();
  return {
    tracker,
    read: async (id, metric) => {
      const run = tracker.runs.get(id);
      if (run === undefined || run.isDeleted) return null;
      return [...run.points.values()].flatMap(({ step, metrics }): [number, number][] =>
        metrics[metric] === undefined ? [] : [[step, metrics[metric]]],
      );
    },
    close: async () => {},
  };
});

let server: ScriptedMlflow;
beforeEach(async () => {
  server = await ScriptedMlflow.start();
});
afterEach(() => server.close());
const signal = () => AbortSignal.timeout(60_000);

it('sends the user and the password of its address, and reports wrong ones', async () => {
  server.authorization = `Basic ${Buffer.from('me:s cret').toString('base64')}`;
  const { url } = server;
  url.username = 'me';
  url.password = 's cret';
  const right = openTracker(`mlflow:${url.href}`);
  await right.check(signal());
  const run = { runId: 'r', entity: 'e', project: 'p', name: 'n', createdAt: 0, parameters: {} };
  expect((await right.begin(run, signal())).url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/#\/experiments\/1\/runs\/0+1$/);
  await expect(new MlflowTracker(server.url).check(signal())).rejects.toMatchObject({
    code: 'refused',
    message: expect.stringContaining('password'),
  });
});

it('a wrong server, an absent one and a hanging one are distinguished from a refusal', async () => {
  const other = createServer((_request, response) => void response.writeHead(404).end('<h1>Not here</h1>'));
  const hanging = createServer(() => {});
  const urls = await Promise.all(
    [other, hanging].map(async (one) => {
      const listening = Promise.withResolvers<void>();
      one.listen(0, '127.0.0.1', listening.resolve);
      await listening.promise;
      return new URL(`http://127.0.0.1:${(one.address() as AddressInfo).port}`);
    }),
  );
  await expect(new MlflowTracker(urls[0]!).check(signal())).rejects.toMatchObject({
    code: 'refused',
    message: expect.stringContaining('the server is not MLflow'),
  });
  await expect(new MlflowTracker(urls[1]!).check(AbortSignal.timeout(20))).rejects.toMatchObject({
    code: 'unreachable',
  });
  for (const one of [other, hanging]) {
    one.closeAllConnections();
    one.close();
  }
  await expect(new MlflowTracker(urls[0]!).check(signal())).rejects.toMatchObject({ code: 'unreachable' });
});

test.each(['mlflow', 'wandb:http://host', 'mlflow:file:///etc', 'mlflow:http://', 'http://host:5000'])(
  'the setting %j is refused with the allowed values',
  (setting) => {
    expect(() => openTracker(setting)).toThrow('mlflow:http://HOST:PORT');
  },
);
