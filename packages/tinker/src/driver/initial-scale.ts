import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { readSafetensors } from '@trainyard/trainer';

import { type AdamParams, RESTING } from '../transport/remote-model.ts';
import { wireFault } from '../wire/wire-fault.ts';
import type { PeftFiles } from './adapter-archive.ts';

/**
 * The random half of a fresh adapter on a server, compared with the one that this service draws: uniform in ±1/√in, mean square 1/(3·in). At one learning
 * rate an adapter with an `a` of half the size moves the model half as far.
 */
export interface InitialScale {
  /** Root mean square of ours over theirs; 1: alike, as far as the number of values tells. */
  readonly factor: number;
  /** Whether the server's is brought to ours, by `scalingStep`, when a model is made. */
  readonly isMatched: boolean;
}

/** Above it a difference changes what a job learns; below it lies the draw of a small adapter. */
const TOLERANCE = 0.02;
/** Standard error of the logarithm of a root mean square over n values times √n: 0.45 for uniform values, 0.71 for normal ones. */
const ERROR_OF_ONE = 0.71;
const STANDARD_ERRORS = 5;

/** Measures of a fresh adapter. */
export interface MeasuredScale {
  readonly factor: number;
  /** Whether ours and theirs differ by more than chance. */
  readonly differs: boolean;
  /** Whether one factor brings all tensors to ours. */
  readonly isUniform: boolean;
}

/** @throws {TrainerError} `trainer.remote_refused` for an adapter whose random half is zero or missing */
export function measureScale({ weights }: PeftFiles): MeasuredScale {
  const tensors = randomHalves(weights);
  const numValues = tensors.reduce((sum, { numValues }) => sum + numValues, 0);
  const logarithm = tensors.reduce((sum, tensor) => sum + (tensor.numValues / numValues) * tensor.logFactor, 0);
  if (!Number.isFinite(logarithm))
    throw wireFault(`a fresh adapter has ${tensors.length} random halves, and no root mean square of them`);
  return {
    factor: Math.exp(logarithm),
    differs: Math.abs(logarithm) > chance(numValues),
    isUniform: tensors.every((tensor) => Math.abs(tensor.logFactor - logarithm) <= chance(tensor.numValues)),
  };
}

/**
 * A step of weight decay alone, by which a fresh adapter's `a` becomes `factor` times as large: AdamW multiplies weights by 1 - rate · decay. A decay above
 * 0 only makes them smaller, so a larger factor comes with the other sign, which changes nothing: `b` is 0, and `a` is as likely as `-a`.
 */
export function scalingStep(factor: number): AdamParams {
  return { ...RESTING, learning_rate: 1, weight_decay: factor < 1 ? 1 - factor : 1 + factor };
}

function chance(numValues: number): number {
  return Math.max(TOLERANCE, (STANDARD_ERRORS * ERROR_OF_ONE) / Math.sqrt(numValues));
}

function randomHalves(weights: Uint8Array): { readonly numValues: number; readonly logFactor: number }[] {
  const scratch = mkdtempSync(join(tmpdir(), 'trainyard-fresh-'));
  try {
    const path = join(scratch, 'adapter_model.safetensors');
    writeFileSync(path, weights, { mode: 0o600 });
    const { tensors } = readSafetensors(path);
    return [...tensors.values()]
      .filter(({ name, dims }) => name.includes('lora_A') && dims.length === 2)
      .map(({ dims, data }) => {
        const square = data.reduce((sum, value) => sum + value * value, 0) / data.length;
        return { numValues: data.length, logFactor: Math.log(1 / (3 * dims[1]!) / square) / 2 };
      });
  } finally {
    rmSync(scratch, { recursive: true });
  }
}
