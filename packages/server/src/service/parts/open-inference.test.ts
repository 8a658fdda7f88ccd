import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/trainer/testing';
import { afterAll, describe, expect, it } from 'vitest';

import { ComputeArbiter } from '../../hosts/computing/compute-arbiter.ts';
import { examineModel } from '../offline/examine-model.ts';
import { BaseScores } from '../../hosts/pool/base-scores.ts';
import { scoreInChild } from '../../hosts/pool/score-in-child.ts';
import { resolveConfig } from '../settings/config.ts';
import { openInference, servedPaths } from './open-inference.ts';

const directory = mkdtempSync(join(tmpdir(), 'open-inference-'));
afterAll(() => rmSync(directory, { recursive: true }));

const sound = join(directory, 'sound.gguf');
writeTinyGguf(sound, TINY_ARCHITECTURES.llama);

function damaged(name: string, options: Parameters<typeof writeTinyGguf>[2]): string {
  const path = join(directory, `${name}.gguf`);
  writeTinyGguf(path, TINY_ARCHITECTURES.llama, options);
  return path;
}

const FILES: readonly (readonly [string, string, RegExp])[] = [
  ['a missing tensor', damaged('norm', { missing: /^blk\.1\.attn_norm/ }), /'blk\.1\.attn_norm\.weight' not found/],
  [
    'a broken template',
    damaged('template', { metadata: { 'tokenizer.chat_template': '{% if %}' } }),
    /chat template failed/,
  ],
  // llama.cpp ends its process by an assertion.
  ['what ends llama.cpp', damaged('experts', { metadata: { 'llama.expert_count': { u32: 1000 } } }), /GGML_ASSERT/],
];

describe.each(FILES)('a model file with %s', (_name, path, reason) => {
  const refusal = {
    code: 'server.host_failed_to_start',
    // One line, with the file and the reason.
    message: expect.stringMatching(new RegExp(`^(?=.*${RegExp.escape(path)}).*${reason.source}.*$`)),
    logged: [],
  };

  async function refusalOf(start: (log: (line: string) => void) => Promise<unknown>): Promise<object> {
    const logged: string[] = [];
    const failure: unknown = await start((line) => logged.push(line)).catch((error: unknown) => error);
    const { code, message } = failure as Error & { code?: string };
    return { code, message, logged };
  }
  const configOf = (...models: string[]) =>
    resolveConfig({
      flags: { dataDir: directory, capacityTokens: '256', modelMemoryMegabytes: '4000' },
      environment: { TRAINYARD_MODEL: models.join() },
      configPath: null,
    });
  const parts = (log: (line: string) => void) => ({
    cacheDirectory: directory,
    cores: new ComputeArbiter().section('inference', 1),
    niceness: 0,
    scores: new BaseScores((modelPath) => scoreInChild({ modelPath, numThreads: 1 }, log)),
    log,
  });

  it('is refused at the start of a service and of an engine, also if it is not the first model', async () => {
    const config = configOf(sound, path);
    expect(await refusalOf((log) => openInference(config, parts(log)))).toEqual(refusal);
  }, 120_000);

  it('is refused at the start of a service and of an engine if it is the only model', async () => {
    const config = { ...configOf(path), modelMemoryMegabytes: null };
    const opened = refusalOf(async (log) => {
      const inference = await openInference(config, parts(log));
      try {
        await inference.start();
      } finally {
        await inference.close();
      }
    });
    expect(await opened).toEqual(refusal);
  }, 120_000);

  it('is refused at the start of a trainer, and by doctor', async () => {
    const config = configOf(path);
    const served = await refusalOf((log) => servedPaths(config, { cacheDirectory: directory, log }));
    expect(served).toEqual(refusal);
    expect(await refusalOf(() => examineModel(config.models[0]!, config))).toEqual(refusal);
  }, 120_000);
});
