/**
 * The unmodified ART client with two API processes behind nginx, one engine and one trainer, each on its own
 * machine.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ART_TIMEOUT_MS, installedArtReleases, runArtClient } from '../support/art-client.ts';
import { Authority } from '../support/network/authority.ts';
import { DatabaseMachine, PASSWORD } from '../support/network/database-machine.ts';
import { type Machine, Network } from '../support/network/network.ts';
import { API_KEY, type NetworkPart, NetworkParts } from '../support/network/network-parts.ts';
import { type Proxy, startNginx } from '../support/network/proxies.ts';

let network: Network;
let authority: Authority;
let database: DatabaseMachine;
let parts: NetworkParts;
let proxy: Proxy;
let balancer: Machine;
let apis: NetworkPart[];

beforeAll(async () => {
  network = new Network();
  const machine = (name: string) => network.machine(name);
  database = await DatabaseMachine.start(await machine('database'));
  balancer = await machine('balancer');
  parts = new NetworkParts({
    TRAINYARD_DATABASE: await database.createDatabase(),
    PGPASSWORD: PASSWORD,
    TRAINYARD_ALLOWED_HOSTS: balancer.address,
  });
  await parts.start(await machine('engine'), 'engine');
  await parts.start(await machine('trainer'), 'trainer');
  apis = [await parts.start(await machine('api one'), 'api'), await parts.start(await machine('api two'), 'api')];
  authority = new Authority();
  const [one, two] = apis.map(({ url }) => new URL(url).host);
  proxy = await startNginx(balancer, 'api', authority.issue('clients', balancer.address), {
    'api-0:8080': one!,
    'api-1:8080': two!,
  });
}, 300_000);
afterAll(async () => {
  await proxy?.stop();
  await parts?.close();
  await database?.stop();
  authority?.remove();
  network?.close();
});

/** Requests that a process has answered, by its metrics. */
async function numAnswered(api: NetworkPart): Promise<number> {
  const text = await (
    await fetch(api.url.replace(/v1$/, 'metrics'), { headers: { authorization: `Bearer ${API_KEY}` } })
  ).text();
  const counts = [...text.matchAll(/^http_requests_total\{.*\} (\d+)$/gm)].map(([, count]) => Number(count));
  return counts.reduce((sum, count) => sum + count, 0);
}

const releases = await installedArtReleases();

test('the client is installed', () => {
  expect(releases.length).toBeGreaterThan(0);
});

describe.each(releases)('openpipe-art (%s)', (release) => {
  test(
    'trains with both processes taking part',
    async () => {
      const before = await Promise.all(apis.map(numAnswered));
      const report = await runArtClient<{ steps: number[]; metrics: Record<string, number>[]; checkpoints: number[] }>(
        'art_client.py',
        { url: `https://${balancer.address}:8443/v1`, apiKey: API_KEY },
        release,
        { SSL_CERT_FILE: authority.certificate },
      );
      expect(report.steps).toEqual([1, 2]);
      expect(report.checkpoints).toEqual([0, 1, 2]);
      for (const metrics of report.metrics)
        expect(metrics['probs_corr'] ?? metrics['loss/probs_corr']).toBeGreaterThan(0.99);
      const after = await Promise.all(apis.map(numAnswered));
      const shares = after.map((count, index) => count - before[index]!);
      console.log(`requests by process: ${shares.join(' and ')}`);
      for (const share of shares) expect(share).toBeGreaterThan(10);
    },
    ART_TIMEOUT_MS,
  );
});
