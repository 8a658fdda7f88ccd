/**
 * Creates tests/fixtures/pytorch-step: results of PyTorch and PEFT for the training jobs of
 * `training-inputs.ts`, about four minutes on one core.
 *
 *   node scripts/torch-environment.mjs && npx node --conditions=@trainyard/source lab/pytorch/make-fixture.ts
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { GgufFile, LlamaModel } from '@trainyard/native';
import { ChatTemplate, renderHistory, Tokenizer, type HistoryItem } from '@trainyard/tokenizer';
import {
  DEFAULT_LORA_CONFIG,
  freshOptimizerState,
  OrtPolicyModel,
  writeCheckpoint,
  writeSafetensors,
} from '@trainyard/trainer';

import { perturbAdapter } from '../../tests/support/perturbed-adapter.ts';
import { torchEnvironment } from '../../scripts/lib/torch-environment.mjs';
import { defaultModelPath } from '../../scripts/own-service.ts';
import { CASES, CHAIN, GROUPS, PROBE_TEXT, type Turn } from './training-inputs.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const FIXTURE = join(ROOT, 'tests/fixtures/pytorch-step');
const NUM_PROBE_TOKENS = 257;

const modelPath = defaultModelPath();
using vocabulary = LlamaModel.load(modelPath, { vocabOnly: true });
const folder = mkdtempSync(join(tmpdir(), 'trainyard-pytorch-'));
try {
  writeBase();
  await writeAdapters();
  const conversations = readConversations();
  writeFileSync(join(folder, 'inputs.json'), JSON.stringify(conversations.forPython));
  const script = join(import.meta.dirname, 'reference_step.py');
  execFileSync(torchEnvironment(ROOT).python, [script, folder], { stdio: 'inherit' });
  const reference = JSON.parse(readFileSync(join(folder, 'reference.json'), 'utf8')) as { sampled: number[][] };
  const { sampled, ...results } = reference;
  mkdirSync(FIXTURE, { recursive: true });
  const jobs = { groups: conversations.wireGroups(sampled), cases: CASES, chain: CHAIN, probe: conversations.probe };
  writeFileSync(join(FIXTURE, 'jobs.json'), `${JSON.stringify(jobs)}\n`);
  writeFileSync(
    join(FIXTURE, 'reference.json'),
    `${JSON.stringify({ model: { sizeBytes: statSync(modelPath).size }, ...results, histories: conversations.forPython.histories })}\n`,
  );
  writeFileSync(join(FIXTURE, 'gradients.safetensors'), readFileSync(join(folder, 'gradients.safetensors')));
} finally {
  rmSync(folder, { recursive: true });
}

/** The file's own tensors, converted to float32: Python builds its own model from them. */
function writeBase(): void {
  using file = GgufFile.open(modelPath);
  const tensors = [...file.tensors.values()].map(({ name, dims }) => ({
    name,
    dims: [...dims].reverse(),
    data: file.readF32(name),
  }));
  writeSafetensors(join(folder, 'base.safetensors'), tensors, { format: 'pt' });
  const architecture = [...file.metadata].filter(([key]) => key.startsWith('llama.'));
  const metadata = Object.fromEntries(architecture.map(([key, value]) => [key.slice('llama.'.length), value]));
  const vocabSize = file.tensors.get('token_embd.weight')!.dims[1];
  writeFileSync(join(folder, 'base.json'), JSON.stringify({ ...metadata, vocab_size: vocabSize }));
}

/** The adapter of step 0, and one that has an effect. */
async function writeAdapters(): Promise<void> {
  const model = await OrtPolicyModel.load({ modelPath, lora: DEFAULT_LORA_CONFIG });
  const write = (name: string): void => {
    const { lora, architecture } = model;
    const optimizer = freshOptimizerState(lora.tensors);
    writeCheckpoint(join(folder, name), { lora, architecture, optimizer, metrics: {} });
  };
  write('fresh');
  perturbAdapter(model.lora);
  write('perturbed');
  model.close();
}

function readConversations() {
  const tokenizer = Tokenizer.fromModel(vocabulary);
  const template = ChatTemplate.fromModel(tokenizer, vocabulary);
  const sample = (content: string): number[] => [...tokenizer.encode(content), vocabulary.eosTokenId!];
  const item = ({ role, content }: Turn): HistoryItem => {
    if (role === 'user') return { kind: 'message', message: { role, content } };
    const tokenIds = Int32Array.from(sample(content));
    return { kind: 'choice', message: { role, content }, tokenIds, logprobs: new Float32Array(tokenIds.length) };
  };
  const histories = GROUPS.flatMap((rollouts, group) =>
    rollouts.flatMap((rollout, trajectory) =>
      rollout.histories.map((turns) => {
        const [sequence, ...others] = renderHistory(template, turns.map(item));
        if (sequence === undefined || others.length > 0) throw new Error('a history must be one sequence');
        const trained = [...sequence.lossMask.keys()].filter((index) => sequence.lossMask[index] === 1);
        return { group, trajectory, token_ids: [...sequence.tokenIds], trained };
      }),
    ),
  );
  const probe = [...tokenizer.encode(PROBE_TEXT.replaceAll('\n', ' '))].slice(0, NUM_PROBE_TOKENS);
  if (probe.length < NUM_PROBE_TOKENS) throw new Error(`the probe has ${probe.length} tokens`);
  /** @param sampled log-probabilities of each history's trained tokens */
  const wireGroups = (sampled: readonly (readonly number[])[]) => {
    const left = sampled.map((values) => [...values]);
    return GROUPS.map((rollouts, group) => ({
      trajectories: rollouts.map(({ reward, histories: conversations }, trajectory) => {
        const first = histories.findIndex((history) => history.group === group && history.trajectory === trajectory);
        const [own, ...additional] = conversations.map((turns, index) => ({
          messages_and_choices: turns.map((turn) =>
            turn.role === 'user' ? turn : wireChoice(turn, sample(turn.content), left[first + index]!),
          ),
        }));
        return { reward, ...own, additional_histories: additional };
      }),
    }));
  };
  const rewards = GROUPS.map((rollouts) => rollouts.map(({ reward }) => reward));
  return { forPython: { histories, rewards, cases: CASES, chain: CHAIN, probe }, probe, wireGroups };
}

/**
 * A sampled reply in the form of the service's answer; takes its log-probabilities from the front of `left`.
 */
function wireChoice(message: Turn, tokenIds: readonly number[], left: number[]) {
  const content = left
    .splice(0, tokenIds.length)
    .map((logprob, index) => ({ token: `token_id:${tokenIds[index]}`, logprob }));
  return { finish_reason: 'stop', index: 0, message, logprobs: { content, refusal: null } };
}
