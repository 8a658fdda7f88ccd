import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { GgufFile, writeGguf, type GgufWritableValue } from '@trainyard/native';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/trainer/testing';
import { afterAll, describe, expect, it } from 'vitest';

import { ComputeArbiter } from '../computing/compute-arbiter.ts';
import { examineModel } from '../examine-model.ts';
import { BaseScores } from '../inference/base-scores.ts';
import { scoreInChild } from '../inference/score-in-child.ts';
import { resolveConfig } from './config.ts';
import { openInference, servedPaths } from './open-inference.ts';

const directory = mkdtempSync(join(tmpdir(), 'open-inference-'));
afterAll(() => rmSync(directory, { recursive: true }));

const sound = join(directory, 'sound.gguf');
writeTinyGguf(sound, TINY_ARCHITECTURES.llama);

/** A copy of the file with other metadata, or without some of its tensors. */
function damaged(name: string, metadata: Record<string, GgufWritableValue>, missing: RegExp | null = null): string {
  const path = join(directory, `${name}.gguf`);
  using file = GgufFile.open(sound);
  const kept = [...file.tensors.values()].filter((tensor) => missing?.test(tensor.name) !== true);
  const tensors = kept.map((tensor) => ({ name: tensor.name, dims: tensor.dims, data: file.readF32(tensor.name) }));
  writeGguf(path, { ...file.rawMetadata(), ...metadata }, tensors);
  return path;
}

const FILES: readonly (readonly [string, string, RegExp])[] = [
  ['a missing tensor', damaged('norm', {}, /^blk\.1\.attn_norm/), /'blk\.1\.attn_norm\.weight' not found/],
  ['a broken template', damaged('template', { 'tokenizer.chat_template': '{% if %}' }), /chat template failed/],
  // llama.cpp ends its process by an assertion.
  ['what ends llama.cpp', damaged('experts', { 'llama.expert_count': { u32: 1000 } }), /GGML_ASSERT/],
];

describe.each(FILES)('a model file with %s', (_name, path, reason) => {
  /** One line with the file and the reason, and no other. */
  async function expectRefusal(start: (log: (line: string) => void) => Promise<unknown>): Promise<void> {
    const lines: string[] = [];
    const failure: unknown = await start((line) => lines.push(line)).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'server.host_failed_to_start' });
    const { message } = failure as Error;
    expect(message).toMatch(reason);
    expect(message).toContain(path);
    expect(message).not.toContain('\n');
    expect(lines).toEqual([]);
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
    await expectRefusal((log) => openInference(config, parts(log)));
  }, 120_000);

  it('is refused at the start of a service and of an engine if it is the only model', async () => {
    const config = { ...configOf(path), modelMemoryMegabytes: null };
    await expectRefusal(async (log) => {
      const inference = await openInference(config, parts(log));
      try {
        await inference.start();
      } finally {
        await inference.close();
      }
    });
  }, 120_000);

  it('is refused at the start of a trainer, and by doctor', async () => {
    const config = configOf(path);
    await expectRefusal((log) => servedPaths(config, { cacheDirectory: directory, log }));
    await expectRefusal(() => examineModel(config.models[0]!, config));
  }, 120_000);
});
