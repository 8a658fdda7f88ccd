import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';

import type { WireChoice, WireTrainingConfig, WireTrajectoryGroup } from '@trainyard/protocol';
import { readSafetensors, type PackedRow, type TrajectoryGroup } from '@trainyard/trainer';

import { testModel } from './model.ts';

const DIRECTORY = resolve(import.meta.dirname, '../fixtures/pytorch-step');

/** Training jobs in the service's form. */
export interface PytorchJobs {
  readonly groups: WireTrajectoryGroup[];
  /** Settings by name. */
  readonly cases: Readonly<Record<string, WireTrainingConfig>>;
  /** Names of the cases that were trained one after the other, from a fresh adapter. */
  readonly chain: readonly string[];
  /** [257] token ids: log-probabilities of all but the first identify a policy. */
  readonly probe: readonly number[];
}

/** Values that PyTorch computed in float64; `float32` is PyTorch's own deviation in float32. */
export interface PytorchReference {
  readonly model: { readonly sizeBytes: number };
  readonly versions: Readonly<Record<string, string>>;
  readonly histories: readonly { readonly token_ids: readonly number[]; readonly trained: readonly number[] }[];
  /** For the perturbed adapter; `logprobs` of each history's trained tokens. */
  readonly perturbed: { readonly logprobs: readonly (readonly number[])[]; readonly probe: readonly number[] };
  /** Adapter tensors, in the order of norms and projections. */
  readonly tensors: readonly string[];
  readonly cases: Readonly<
    Record<string, { loss: number; grad_norm: number; float32: { loss: number; worst_gradient: number } }>
  >;
  /** The fresh adapter, then the one after each step. */
  readonly chain: readonly {
    readonly loss?: number;
    readonly grad_norm?: number;
    readonly probe: readonly number[];
    readonly float32: { readonly probe: number };
  }[];
}

const readJson = (name: string): unknown => JSON.parse(readFileSync(resolve(DIRECTORY, name), 'utf8'));

export const pytorchJobs = (): PytorchJobs => readJson('jobs.json') as PytorchJobs;
export const pytorchReference = (): PytorchReference => readJson('reference.json') as PytorchReference;

/** True if the test model is the file that PyTorch used; another one has other numbers. */
export const isPytorchModel = (reference: PytorchReference): boolean =>
  statSync(testModel().base).size === reference.model.sizeBytes;

/**
 * Gradients of each case: `CASE: norms` [420], `CASE: projections` [420, 8] and, for one layer, the whole
 * `CASE: TENSOR`.
 */
export const pytorchGradients = () => readSafetensors(resolve(DIRECTORY, 'gradients.safetensors')).tensors;

/** Groups in the trainer's form. */
export function trainerGroups(groups: readonly WireTrajectoryGroup[]): TrajectoryGroup[] {
  return groups.map(({ trajectories }) => ({
    numExceptions: 0,
    trajectories: trajectories.map(({ reward, messages_and_choices: first = [], additional_histories: more = [] }) => ({
      reward: Number(reward),
      histories: [first, ...more.map((history) => history.messages_and_choices)].map((items) => ({
        tools: null,
        items: items.map(historyItem),
      })),
    })),
  }));
}

type HistoryItem = TrajectoryGroup['trajectories'][number]['histories'][number]['items'][number];

function historyItem(item: object): HistoryItem {
  if (!('message' in item)) return { kind: 'message', message: item as HistoryItem['message'] };
  const { message, logprobs } = item as WireChoice;
  const entries = logprobs!.content!;
  return {
    kind: 'choice',
    message: message as HistoryItem['message'],
    tokenIds: Int32Array.from(entries, ({ token }) => Number(token.slice('token_id:'.length))),
    logprobs: Float32Array.from(entries, ({ logprob }) => logprob),
  };
}

/** One sequence with every token but the first trained. */
export function sequenceRow(tokens: readonly number[]): PackedRow {
  const indices = Int32Array.from(tokens.slice(1).keys());
  return {
    tokenIds: Int32Array.from(tokens.slice(0, -1)),
    positions: indices,
    parents: indices.map((index) => index - 1),
    sources: indices,
    targets: Int32Array.from(tokens.slice(1)),
  };
}

/** Mean and largest absolute difference. */
export function difference(a: ArrayLike<number>, b: ArrayLike<number>): { mean: number; max: number } {
  const gaps = Array.from(a, (value, i) => Math.abs(value - b[i]!));
  return { mean: gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length, max: Math.max(...gaps) };
}
