/**
 * The System page with vLLM servers, in a real browser: each server with its work, and the fault of an absent
 * one.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { TokenEngine } from '@trainyard/engine';
import { EmbeddedTokenBackend, ScriptedRunner } from '@trainyard/engine/testing';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/trainer/testing';
import { FakeVllm } from '@trainyard/vllm/testing';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ownService, type OwnService } from '../../scripts/own-service.ts';
import { hasBrowser, openBrowser } from '../support/browser.ts';

const KEY = 'a-key-of-vllm';
const WAIT = { timeout: 60_000 };

/** As many tokens as in the tiny model file's vocabulary. */
function openFake(): Promise<FakeVllm> {
  const ends = { eosTokenId: 258, endTokenIds: new Set([258]) };
  const engine = new TokenEngine({ runner: new ScriptedRunner({ vocabSize: 259 }), ends });
  return FakeVllm.open({ brain: new EmbeddedTokenBackend({ modelId: 'base', engine }), policy: 'fcfs', apiKey: KEY });
}

describe.skipIf(!hasBrowser())('the System page with a pool', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'trainyard-pool-'));
  let fakes: FakeVllm[];
  let service: OwnService;
  let browser: Browser;
  beforeAll(async () => {
    const modelPath = join(scratch, 'tiny.gguf');
    writeTinyGguf(modelPath, TINY_ARCHITECTURES.llama);
    fakes = [await openFake(), await openFake()];
    fakes[1]!.kvUse = 0.5;
    service = await ownService({
      environment: {
        TRAINYARD_MODEL: modelPath,
        TRAINYARD_MODEL_ID: 'tiny/llama',
        TRAINYARD_VLLM: fakes.map(({ url }) => url).join(','),
        TRAINYARD_VLLM_KEY: KEY,
        TRAINYARD_VLLM_CHECK: 'off',
      },
    });
    browser = await openBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await service?.close();
    for (const fake of fakes) await fake.close();
    rmSync(scratch, { recursive: true });
  });

  test('has a row for each server, without its key, and shows the fault of an absent one', async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
    await page.goto(/^Dashboard (\S+)$/m.exec(service.output())![1]!);
    await page.getByRole('link', { name: 'System' }).click();
    const rows = page.getByRole('table', { name: 'vLLM servers' }).locator('tbody tr');
    await expect.poll(() => rows.count(), WAIT).toBe(2);
    const kvUses = () => rows.locator('td:nth-child(6)').allTextContents();
    await expect.poll(kvUses, WAIT).toEqual(['25 %', '50 %']);
    const [first = ''] = await rows.allTextContents();
    expect(first).toContain(new URL(fakes[0]!.url).host);
    expect(first).toContain('up');
    expect(first).toContain('0.32.0');
    expect(await page.content()).not.toContain(KEY);
    await fakes[0]!.close();
    await expect.poll(() => rows.first().textContent(), WAIT).toContain('down');
    expect(await rows.first().textContent()).toContain('cannot be reached');
    expect(await rows.nth(1).textContent()).toContain('up');
    await page.close();
  });
});
