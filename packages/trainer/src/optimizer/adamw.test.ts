import { describe, expect, it } from 'vitest';
import { resolveTrainingConfig } from '../config/training-config.ts';
import type { LoraTensor } from '../model/policy-model.ts';
import { adamWStep, freshOptimizerState, gradientNorm } from './adamw.ts';
import { seededRandom } from '../packing/random.ts';

function tensor(layer: number, values: number[]): LoraTensor {
  const name = `layers.${layer}.q.a` as const;
  return {
    name,
    layer,
    linear: 'q',
    half: 'a',
    valueHeads: null,
    dims: [1, values.length],
    value: Float32Array.from(values),
    gradient: new Float32Array(values.length),
  };
}

describe('adamWStep', () => {
  it("follows a float64 twin written in the paper's way", () => {
    const config = resolveTrainingConfig({ learningRate: 1e-2 });
    const random = seededRandom(7);
    const tensors = [
      tensor(
        0,
        Array.from({ length: 50 }, () => random() - 0.5),
      ),
      tensor(
        1,
        Array.from({ length: 30 }, () => random() - 0.5),
      ),
    ];
    const state = freshOptimizerState(tensors);
    const theta = tensors.flatMap(({ value }) => [...value]);
    const m = theta.map(() => 0);
    const v = theta.map(() => 0);
    let largest = 0;
    for (let step = 1; step <= 100; step++) {
      for (const { gradient } of tensors)
        for (let i = 0; i < gradient.length; i++) gradient[i] = (random() - 0.5) * 10 ** (random() * 4 - 3);
      const g = tensors.flatMap(({ gradient }) => [...gradient]);
      const norm = Math.hypot(...g);
      expect(gradientNorm(tensors)).toBeCloseTo(norm, 12);
      adamWStep(tensors, state, gradientNorm(tensors), config);
      g.forEach((slope, i) => {
        const clipped = norm > 0.1 ? (slope * 0.1) / norm : slope;
        m[i] = 0.9 * m[i]! + 0.1 * clipped;
        v[i] = 0.99 * v[i]! + 0.01 * clipped ** 2;
        const mHat = m[i]! / (1 - 0.9 ** step);
        const vHat = v[i]! / (1 - 0.99 ** step);
        theta[i] = theta[i]! - 1e-2 * (mHat / (Math.sqrt(vHat) + 1e-8) + 0.1 * theta[i]!);
      });
      tensors
        .flatMap(({ value }) => [...value])
        .forEach((value, i) => (largest = Math.max(largest, Math.abs(value - theta[i]!))));
    }
    // float32 storage of values up to 1: each of 100 steps rounds by at most 6e-8; 1e-6 in the clip shifts a step by
    // 1e-5 of 1e-2.
    console.log(`AdamW after 100 steps: largest difference from the float64 twin ${largest.toExponential(2)}`);
    expect(largest).toBeLessThan(5e-6);
    expect(state.numSteps).toBe(100);
  });

  it('moves by the learning rate at the first step, for any size of the gradient', () => {
    const one = tensor(0, [1, 1, 1]);
    one.gradient.set([1e-3, -5, 0]);
    adamWStep(
      [one],
      freshOptimizerState([one]),
      gradientNorm([one]),
      resolveTrainingConfig({ learningRate: 0.01, weightDecay: 0 }),
    );
    expect(one.value[0]).toBeCloseTo(0.99, 4);
    expect(one.value[1]).toBeCloseTo(1.01, 6);
    expect(one.value[2]).toBe(1);
  });

  it('clips nothing if the norm may be infinite', () => {
    const values = [Infinity, 1e30].map((maxGradNorm) => {
      const one = tensor(0, [0.5, -3, 2]);
      const state = freshOptimizerState([one]);
      for (const gradient of [
        [400, -5, 0.1],
        [-1, 6, 0.2],
      ]) {
        one.gradient.set(gradient);
        adamWStep([one], state, gradientNorm([one]), { ...resolveTrainingConfig({ learningRate: 0.01 }), maxGradNorm });
      }
      return [...one.value];
    });
    expect(values[0]!.every(Number.isFinite)).toBe(true);
    expect(values[0]).toEqual(values[1]);
  });

  it('changes nothing at learning rate 0', () => {
    const one = tensor(0, [0.1, -3, 1e-20]);
    one.gradient.set([4, 5, 6]);
    const before = one.value.slice();
    adamWStep([one], freshOptimizerState([one]), gradientNorm([one]), resolveTrainingConfig({ learningRate: 0 }));
    expect(one.value).toEqual(before);
  });
});
