/** A service that fetches the base models which its clients name: the same steps for each kind of service. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Trainyard, TrainyardApiError } from '@trainyard/sdk';
import { LoopbackHub, type TinyRepository, tinyRepository } from '@trainyard/server/testing';
import { expect } from 'vitest';

/** The fetched model in tests. */
export const HUB_MODEL = 'org/tiny';

/** A hub with a tiny model, and a cache for each process. */
export class HubOfTests {
  readonly hub: LoopbackHub;
  readonly files: TinyRepository;
  readonly #folder = mkdtempSync(join(tmpdir(), 'trainyard-hub-bases-'));
  #numCaches = 0;
  #numFolders = 0;

  private constructor(hub: LoopbackHub, files: TinyRepository) {
    this.hub = hub;
    this.files = files;
  }

  static async open(): Promise<HubOfTests> {
    const [hub, files] = [await LoopbackHub.open(), await tinyRepository()];
    hub.add(HUB_MODEL, files.folder);
    return new HubOfTests(hub, files);
  }

  /** Variables for a process with a cache of its own. */
  environment(): Record<string, string> {
    const cache = join(this.#folder, `cache-${this.#numCaches++}`);
    return { HF_ENDPOINT: this.hub.url, HF_HUB_CACHE: cache, HF_HUB_OFFLINE: '', HF_TOKEN: '' };
  }

  /** A data folder with shared blobs, as on a shared volume. */
  dataDirectory(): string {
    const [blobs, own] = [join(this.#folder, 'blobs'), join(this.#folder, `data-${this.#numFolders++}`)];
    for (const path of [blobs, own]) mkdirSync(path, { recursive: true, mode: 0o700 });
    symlinkSync(blobs, join(own, 'blobs'));
    return own;
  }

  async close(): Promise<void> {
    await this.hub.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Registers a model on a hub model that arrives slowly, and asks for it until it answers. */
export async function followFetch(client: Trainyard, hub: LoopbackHub): Promise<void> {
  // Ten seconds, so that a busy machine asks before it is there.
  hub.bytesPerSecond = 15_000;
  const model = await client.models.register({ project: 'hub', name: 'tiny', base_model: HUB_MODEL });
  expect(model.base_model).toBe(HUB_MODEL);
  const job = await client.sftJobs.create({
    model_id: model.id,
    training_data_url: DATA,
    config: { learning_rate: 1e-3 },
  });
  expect(job).toMatchObject({ status: 'queued', waiting_for: { code: 'base_model' } });
  expect(job.waiting_for!.message).toMatch(/^The base model `org\/tiny` (?:is being fetched|waits for its download)/);

  for (const name of [HUB_MODEL, 'local/hub/tiny']) {
    const refusal = await refusalOf(ask(client, name));
    expect([refusal.status, refusal.code]).toEqual([503, 'server.unavailable']);
    expect(refusal.message).toMatch(/: The base model `org\/tiny` (?:is being|waits)/);
    expect(Number(refusal.headers.get('retry-after'))).toBeGreaterThanOrEqual(2);
  }
  await expect
    .poll(async () => (await refusalOf(ask(client, HUB_MODEL))).message, { interval: 100 })
    .toMatch(/is being fetched: [\d.]+ of [\d.]+ MB \(\d+ %\)/);
  hub.bytesPerSecond = null;
  await untilServed(client);
  expect((await ask(client, HUB_MODEL)).length).toBeGreaterThan(0);
  expect((await client.trainingJobs.wait(job.id)).status).toBe('succeeded');
  expect((await ask(client, 'local/hub/tiny')).length).toBeGreaterThan(0);
}

export async function untilServed(client: Trainyard, id = HUB_MODEL): Promise<void> {
  await expect
    .poll(async () => (await client.baseModels.list()).data.find((base) => base.id === id)?.status, { timeout: 60_000 })
    .toBe('served');
}

const DATA = `data:application/jsonl,${encodeURIComponent(
  JSON.stringify({
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: 'ho' },
    ],
  }),
)}`;

export async function ask(client: Trainyard, model: string): Promise<string> {
  const messages = [{ role: 'user', content: 'hi' } as const];
  const answer = await client.chat.completions.create({ model, messages, max_tokens: 4, ignore_eos: true });
  return answer.choices[0]!.finish_reason ?? '';
}

export async function refusalOf(call: Promise<unknown>): Promise<TrainyardApiError> {
  const thrown: unknown = await call.then(
    () => null,
    (error: unknown) => error,
  );
  if (thrown instanceof TrainyardApiError) return thrown;
  throw new Error(`the call was not refused: ${String(thrown)}`);
}
