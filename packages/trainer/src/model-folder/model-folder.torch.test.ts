import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { GgufFile, LlamaModel } from '@trainyard/native';
import { ChatTemplate, Tokenizer } from '@trainyard/tokenizer';
import { readWeights } from '@trainyard/transformer';
import { TORCH_NAMES } from '@trainyard/transformer/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { tokenizerJson } from '../export/tokenizer-json.ts';
import { logprobDifference, parityRow } from '../export/parity.ts';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';
import { trainableArchitecture } from '../model/trainable-architecture.ts';
import { folderSource } from './folder-source.ts';
import { modelCopy } from './model-copy.ts';

/** Folders saved by transformers, with tokenizers trained by tokenizers, compute the same here as there. */

const ROOT = resolve(import.meta.dirname, '../../../..');
const NUM_TEXTS = 2000;
const scratch = mkdtempSync(join(tmpdir(), 'trainyard-folders-'));
afterAll(() => rmSync(scratch, { recursive: true }));
beforeAll(async () => {
  await promisify(execFile)(
    process.env['TRAINYARD_TEST_TORCH_PYTHON']!,
    [join(ROOT, 'lab/pytorch/model_folders.py'), scratch, join(ROOT, 'docs'), String(NUM_TEXTS)],
    { env: { ...process.env, HF_HUB_OFFLINE: '1', TRANSFORMERS_OFFLINE: '1' }, maxBuffer: 64e6 },
  );
}, 600_000);

interface Report {
  readonly ids: readonly number[];
  readonly logprobs: readonly number[];
  readonly texts: readonly (readonly [text: string, ids: readonly number[]])[];
  readonly chat: readonly number[];
}

/** Merges in any order within a token. */
function expectSameVocabulary(exported: object | null, original: Buffer): void {
  const [own, expected] = [JSON.stringify(exported), original.toString()].map(
    (text) => JSON.parse(text) as { model: { vocab: Record<string, number>; merges: [string, string][] } },
  );
  const placed = (merges: readonly [string, string][]) => [
    [...new Set(merges.map((halves) => halves.join('')))],
    merges.map((halves) => halves.join(' ')).toSorted(),
  ];
  expect(own!.model.vocab).toMatchObject(expected!.model.vocab);
  expect(placed(own!.model.merges)).toEqual(placed(expected!.model.merges));
}

test.each([
  ['llama3', 'llama-bpe', 'bf16', true],
  ['smollm', 'smollm', 'f32', false],
  ['gpt2', 'gpt-2', 'f32', false],
  ['qwen2', 'qwen2', 'bf16', false],
  ['qwen3', 'qwen2', 'f16', true],
  ['qwen3moe', 'qwen2', 'bf16', true],
  ['qwen3moe mixed', 'qwen2', 'f32', false],
  ['lfm2', 'llama-bpe', 'bf16', false],
  ['lfm2 adjusted', 'llama-bpe', 'f32', false],
  ['granite', 'llama-bpe', 'bf16', false],
  ['granitemoe', 'smollm', 'bf16', false],
  ['granitemoeshared', 'smollm', 'bf16', false],
  ['granite4', 'llama-bpe', 'bf16', false],
  ['granite4 without rope', 'llama-bpe', 'f32', false],
  ['gpt-oss', 'gpt-4o', 'bf16', false],
  ['smollm3', 'llama-bpe', 'bf16', false],
  ['olmo2', 'llama-bpe', 'bf16', false],
  ['olmo3', 'llama-bpe', 'bf16', false],
  ['mistral', 'llama-bpe', 'bf16', false],
  ['gemma3', 'default', 'bf16', false],
  ['phi-windows', 'default', 'bf16', false],
  ['phi4', 'llama-bpe', 'bf16', false],
  ...(TORCH_NAMES.includes('qwen35')
    ? ([
        ['qwen35', 'qwen35', 'bf16', false],
        ['qwen35 one value head', 'qwen35', 'f32', false],
      ] as const)
    : []),
] as const)(
  '%s: log-probabilities, ids and prompts equal those of transformers',
  async (name, pre, type, isSharded) => {
    const folder = join(scratch, name);
    const report = JSON.parse(readFileSync(`${folder}.json`, 'utf8')) as Report;
    const weights = readdirSync(folder).filter((file) => file.endsWith('.safetensors'));
    expect(weights.length > 1).toBe(isSharded);
    const copy = await modelCopy(folderSource(folder), { directory: join(scratch, 'copies') });

    using file = GgufFile.open(copy);
    expect(file.metadata.get('tokenizer.ggml.pre')).toBe(pre);
    expect(file.tensors.get('token_embd.weight')!.type).toBe(type);
    const architecture = trainableArchitecture(file);
    const policy = new OrtPolicyModel(architecture, readWeights(file, architecture), { numThreads: 1 });
    const { logprobs } = await policy.forward(parityRow(Int32Array.from(report.ids)), { withoutAdapter: true });
    policy.close();
    const { max } = logprobDifference(logprobs, report.logprobs);
    console.log(`${name}: log-probabilities differ by ${max.toExponential(1)} at most`);
    // transformers computes in float64, except norms and softmax.
    expect(max).toBeLessThan(2e-4);

    using vocabulary = LlamaModel.load(copy, { vocabOnly: true });
    const tokenizer = Tokenizer.fromModel(vocabulary);
    expect(report.texts.length).toBe(NUM_TEXTS);
    for (const [text, ids] of report.texts) expect([text, [...tokenizer.encode(text)]]).toEqual([text, ids]);
    const template = ChatTemplate.fromModel(tokenizer, vocabulary);
    const prompt = template.render([{ role: 'user', content: 'Hello' }], { addGenerationPrompt: false });
    expect([...prompt.tokenIds]).toEqual(report.chat);
    if (pre === 'default')
      expectSameVocabulary(tokenizerJson(file, null), readFileSync(join(folder, 'tokenizer.json')));
  },
  300_000,
);
