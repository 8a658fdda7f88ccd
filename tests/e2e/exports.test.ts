import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { Trainyard } from '@trainyard/sdk';

import type { OwnService } from '../../scripts/own-service.ts';
import { programPath } from '../../scripts/program-path.ts';
import { scoredGroup } from '../support/groups.ts';
import { smallService } from '../support/small-service.ts';

/** Exports of a trained checkpoint through the running service, and re-imported adapters. */

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-exports-'));
const dataDirectory = join(scratch, 'data');
const environment: Record<string, string> = {};
let service: OwnService;
let client: Trainyard;
let modelId: string;

/** Every option that gives modules a rank or scale of their own. */
const LORA = {
  use_rslora: true,
  rank_pattern: { 'layers.0.mlp.down_proj': 16, q_proj: 4 },
  alpha_pattern: { 'layers.1.self_attn.v_proj': 4, up_proj: 8 },
};

async function start(): Promise<void> {
  service = await smallService({ dataDirectory, environment });
  environment['TRAINYARD_API_KEY'] = service.apiKey;
  client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
}

beforeAll(async () => {
  await start();
  const base = (await client.servedModels.list()).data[0]!.id;
  modelId = (await client.models.register({ project: 'out', name: 'agent', base_model: base, lora: LORA })).id;
  const job = await client.trainingJobs.create({
    model_id: modelId,
    trajectory_groups: [await scoredGroup(client, 'agent')],
    experimental_config: { learning_rate: 1e-3 },
  });
  await client.trainingJobs.gradientSteps(job.id);
}, 240_000);

afterAll(async () => {
  await service.close();
  rmSync(scratch, { recursive: true, force: true });
});

/** Folders of stored data, and of unfinished writes. */
function kept(part: 'exports' | 'adapters'): string[] {
  try {
    return readdirSync(join(dataDirectory, 'blobs/directories', part));
  } catch {
    return [];
  }
}

function staged(): string[] {
  const staging = join(dataDirectory, 'blobs/staging');
  return readdirSync(staging).flatMap((area) => readdirSync(join(staging, area)));
}

function childrenOf(pid: number): string[] {
  const { stdout } = spawnSync('ps', ['-o', 'args=', '--ppid', String(pid)], { encoding: 'utf8' });
  return stdout.trim().split('\n');
}

async function command(...args: string[]): Promise<{ code: number | null; output: string }> {
  const main = programPath('packages/cli/src/main.ts');
  const child = spawn(process.execPath, ['--conditions=@trainyard/source', main, ...args], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
  const code = await new Promise<number | null>((done) => child.once('close', done));
  return { code, output };
}

describe('trainyard export', () => {
  it.each([
    ['gguf-adapter', ['adapter.gguf', 'parity.json']],
    ['merged-gguf', ['model.gguf', 'parity.json']],
  ])('exports a checkpoint as %s, and reports the difference', { timeout: 240_000 }, async (format, files) => {
    const output = join(scratch, format);
    const args = ['agent', '--format', format, '--output', output, '--url', service.url];
    const { code, output: printed } = await command('export', ...args);
    console.log(printed);
    expect(code, printed).toBe(0);
    expect(readdirSync(output).toSorted()).toEqual(files);
    const parity = JSON.parse(readFileSync(join(output, 'parity.json'), 'utf8')) as { meanDifference: number };
    expect(parity.meanDifference).toBeLessThan(0.01);
    expect(printed).toMatch(
      /exporting local\/out\/agent:step1 as .*[^]*parity on 256 tokens, files run with llama\.cpp/,
    );
    expect(kept('exports'), 'it took its files with it').toEqual([]);
    const again = await command('export', ...args);
    expect(again).toMatchObject({ code: 1, output: expect.stringContaining('is not empty') });
  });

  it('reports faults of its arguments and names', async () => {
    const url = ['--url', service.url];
    const output = join(scratch, 'empty');
    const wrong: [string[], number, string][] = [
      [['export', '--help'], 0, 'usage: trainyard export'],
      [['export', 'agent', '--output', scratch], 2, "required option '--format <FORMAT>' not specified"],
      [['export', 'agent', '--format', 'zip', '--output', scratch], 2, 'Allowed choices are peft,'],
      [
        ['export', 'agent', '--format', 'peft', '--dtype', 'q4', '--output', scratch],
        2,
        'Allowed choices are f16, f32',
      ],
      [['export', '--format', 'peft', '--output', scratch], 2, "missing required argument 'MODEL'"],
      [['export', 'nobody', '--format', 'peft', '--output', output, ...url], 1, 'nobody'],
      [['export', 'agent:step7', '--format', 'peft', '--output', output, ...url], 1, 'agent:step7'],
    ];
    for (const [args, code, message] of wrong) {
      expect(await command(...args)).toMatchObject({ code, output: expect.stringContaining(message) });
    }
  }, 120_000);
});

describe('an export', () => {
  it(
    'an export as peft is imported as an adapter of the same weights, and nothing else is',
    { timeout: 240_000 },
    async () => {
      const { id } = await client.exports.create(modelId, { format: 'peft' });
      const finished = await client.exports.wait(modelId, id);
      expect(finished.parity).toMatchObject({ computed_by: 'trainer', mean_abs_difference: 0, max_abs_difference: 0 });
      const bytes = async (name: string) => {
        const response = await client.exports.download(modelId, id, name);
        const content = new Uint8Array(await response.arrayBuffer());
        const digest = createHash('sha256').update(content).digest('hex');
        expect(response.headers.get('etag')).toBe(`"${digest}"`);
        expect(finished.files.find((file) => file.name === name)).toMatchObject({
          size_bytes: content.length,
          sha256: digest,
        });
        return content;
      };
      const config = await bytes('adapter_config.json');
      const weights = await bytes('adapter_model.safetensors');
      const adapter = await client.adapters.import({ config, weights });
      expect(adapter).toMatchObject({
        status: 'ready',
        digest: finished.source_digest,
        lora: { rank: 8, alpha: 16, ...LORA },
      });
      expect(JSON.parse(new TextDecoder().decode(config))).toMatchObject(LORA);
      expect(kept('adapters')).toHaveLength(1);

      const chat = { messages: [{ role: 'user', content: 'yes or no?' }], max_tokens: 12, temperature: 0, seed: 1 };
      const [here, trained] = await Promise.all(
        [adapter.name, 'agent'].map((model) => client.chat.completions.create({ ...chat, model, logprobs: true })),
      );
      expect(here?.model).toBe(adapter.name);
      expect(here?.choices[0]?.message.content).toBe(trained?.choices[0]?.message.content);
      const scores = [here, trained].map((answer) => answer?.choices[0]?.logprobs?.content ?? []);
      const distance = Math.max(...scores[0]!.map(({ logprob }, at) => Math.abs(logprob - scores[1]![at]!.logprob)));
      console.log(`an import and the checkpoint it came from: at most ${distance} between their log-probabilities`);
      expect(distance).toBeLessThan(1e-3);
      expect((await client.servedModels.list()).data.map(({ id: listed }) => listed)).toContain(adapter.name);

      const dora = new TextEncoder().encode(
        JSON.stringify({ ...(JSON.parse(new TextDecoder().decode(config)) as object), use_dora: true }),
      );
      await expect(client.adapters.import({ config: dora, weights })).rejects.toMatchObject({
        status: 422,
        code: 'trainer.adapter_invalid',
        message: expect.stringContaining('use_dora is not supported'),
      });
      await expect(client.adapters.import({ config, weights: weights.slice(0, -8) })).rejects.toMatchObject({
        status: 422,
        message: expect.stringMatching(/tensor .* ends beyond the end of the file/),
      });
      expect((await client.adapters.list()).data.map(({ id: listed }) => listed)).toEqual([adapter.id]);
      await client.adapters.delete(adapter.id);
      await client.exports.delete(modelId, id);
      expect([...kept('adapters'), ...kept('exports'), ...staged()]).toEqual([]);
    },
  );

  it('an export as peft is imported under any alpha, each import with its own', { timeout: 240_000 }, async () => {
    const { id } = await client.exports.create(modelId, { format: 'peft' });
    await client.exports.wait(modelId, id);
    const bytes = async (name: string) =>
      new Uint8Array(await (await client.exports.download(modelId, id, name)).arrayBuffer());
    const config = JSON.parse(new TextDecoder().decode(await bytes('adapter_config.json'))) as object;
    const weights = await bytes('adapter_model.safetensors');
    const chat = { messages: [{ role: 'user', content: 'yes or no?' }], max_tokens: 1, temperature: 0, seed: 1 };
    const base = (await client.servedModels.list()).data[0]!.id;
    const scoreOf = async (model: string) =>
      (await client.chat.completions.create({ ...chat, model, logprobs: true })).choices[0]!.logprobs!.content![0]!
        .logprob;
    const untouched = await scoreOf(base);
    const effects = async (alphas: readonly number[]) => {
      const found: Record<number, number> = {};
      const imported: string[] = [];
      for (const alpha of alphas) {
        const only = { lora_alpha: alpha, alpha_pattern: {} };
        const changed = new TextEncoder().encode(JSON.stringify({ ...config, ...only }));
        const adapter = await client.adapters.import({ config: changed, weights });
        found[alpha] = Math.abs((await scoreOf(adapter.name)) - untouched);
        imported.push(adapter.id);
      }
      for (const adapterId of imported) await client.adapters.delete(adapterId);
      return found;
    };
    const rising = await effects([0.08, 8]);
    console.log('the effect of an adapter on a log-probability, by its alpha', rising);
    expect(rising[8]).toBeGreaterThan(10 * rising[0.08]!);
    expect(await effects([8, 0.08])).toEqual(rising);
    await client.exports.delete(modelId, id);
  });

  it('an export interrupted by a crash of the service runs again and ends once', { timeout: 240_000 }, async () => {
    const { id } = await client.exports.create(modelId, { format: 'merged-safetensors' });
    await expect.poll(() => staged().length).toBe(1);
    await expect.poll(() => childrenOf(service.pid)).toHaveLength(3);
    process.kill(service.pid, 'SIGKILL');
    await service.stop();
    await start();
    const finished = await client.exports.wait(modelId, id);
    expect(finished.files.map((file) => file.name)).toEqual([
      'config.json',
      'generation_config.json',
      'model.safetensors',
      'parity.json',
      'tokenizer.json',
      'tokenizer_config.json',
    ]);
    console.log(finished.parity);
    expect(finished.parity!.mean_abs_difference).toBeLessThan(0.01);
    expect(staged()).toEqual([]);
    await expect.poll(() => childrenOf(service.pid)).toHaveLength(2);
    await client.exports.delete(modelId, id);
  });

  it('an export whose process dies runs again, and so does the next one', { timeout: 240_000 }, async () => {
    const doomed = await client.exports.create(modelId, { format: 'merged-gguf' });
    const next = await client.exports.create(modelId, { format: 'gguf-adapter' });
    const host = () => {
      const { stdout } = spawnSync('ps', ['-o', 'pid=,args=', '--ppid', String(service.pid)], { encoding: 'utf8' });
      return Number(/^\s*(\d+).*transfer-host/m.exec(stdout)?.[1] ?? 0);
    };
    await expect.poll(host).toBeGreaterThan(0);
    process.kill(host(), 'SIGKILL');
    for (const { id } of [doomed, next]) expect((await client.exports.wait(modelId, id)).status).toBe('succeeded');
    expect(service.output()).toMatch(/it was killed \(SIGKILL\)/);
    expect(await client.service.isHealthy()).toBe(true);
    for (const { id } of [doomed, next]) await client.exports.delete(modelId, id);
  });

  it('ends when its model is deleted, and leaves nothing', { timeout: 240_000 }, async () => {
    const base = (await client.servedModels.list()).data[0]!.id;
    const { id: doomedId } = await client.models.register({ project: 'out', name: 'doomed', base_model: base });
    const { id } = await client.exports.create(doomedId, { format: 'merged-gguf' });
    await expect.poll(() => staged().length).toBe(1);
    await client.models.delete(doomedId);
    await expect(client.exports.retrieve(doomedId, id)).rejects.toMatchObject({ status: 404 });
    await expect.poll(() => [...kept('exports'), ...staged()]).toEqual([]);
    await expect.poll(() => childrenOf(service.pid)).toHaveLength(2);
  });

  it('keeps llama.cpp and ONNX Runtime out of the API process', () => {
    const mapped = readFileSync(`/proc/${service.pid}/maps`, 'utf8');
    expect(mapped).toContain('node');
    expect(mapped).not.toMatch(/koffi|onnxruntime|libllama|libggml/i);
    expect(service.output()).not.toMatch(/request .* failed/);
  });
});
