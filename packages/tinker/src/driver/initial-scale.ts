import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { readSafetensors } from '@trainyard/trainer';

import { type AdamParams, RESTING } from '../transport/remote-model.ts';
import { wireFault } from '../wire/wire-fault.ts';
import type { PeftFiles } from './adapter-archive.ts';

/**
 * Size of the random half of a fresh adapter, compared with this service's: uniform in ±1/√in, mean square
 * 1/(3·in). At one learning rate an `a` of half the size moves the model half as far.
 */
export interface InitialScale {
  /** Root mean square of this service's over the server's; 1: equal, as far as the number of values shows. */
  readonly factor: number;
  /** True if `scalingStep` brings the server's to this service's size. */
  readonly isMatched: boolean;
}

/** Difference above which a job learns differently; small adapters differ randomly by less. */
const TOLERANCE = 0.02;
/**
 * Standard error of the logarithm of a root mean square over n values times √n: 0.45 for uniform values, 0.71
 * for normal ones.
 */
const ERROR_OF_ONE = 0.71;
const STANDARD_ERRORS = 5;

export interface MeasuredScale {
  readonly factor: number;
  /** True if the difference exceeds chance. */
  readonly differs: boolean;
  /** True if one factor fits all tensors. */
  readonly isUniform: boolean;
}

/** @throws {TrainerError} `trainer.remote_refused` for an adapter whose random half is zero or missing */
export function measureScale({ weights }: PeftFiles): MeasuredScale {
  const tensors = randomHalves(weights);
  const numValues = tensors.reduce((sum, { numValues }) => sum + numValues, 0);
  const logarithm = tensors.reduce((sum, tensor) => sum + (tensor.numValues / numValues) * tensor.logFactor, 0);
  if (!Number.isFinite(logarithm))
    throw wireFault(`the scale of a new adapter cannot be measured from its ${tensors.length} random halves`);
  return {
    factor: Math.exp(logarithm),
    differs: Math.abs(logarithm) > chance(numValues),
    isUniform: tensors.every((tensor) => Math.abs(tensor.logFactor - logarithm) <= chance(tensor.numValues)),
  };
}

/**
 * A step of pure weight decay that multiplies a fresh adapter's `a` by `factor`: AdamW multiplies weights by 1 -
 * rate · decay. A positive decay below 2 only shrinks them, so a larger factor has a negative sign. That is
 * harmless: `b` is 0, and `a` is as likely as `-a`.
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
