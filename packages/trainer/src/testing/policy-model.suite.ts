import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { LoraHalf } from '@trainyard/transformer';
import { randomSource } from '@trainyard/transformer/testing';
import type { ForwardOptions, PackedRow, PolicyModel } from '../model/policy-model.ts';
import { randomizeAdapter } from './randomize-adapter.ts';

export interface PolicyModelHarness {
  /** Gives a fresh adapter. */
  open(): PolicyModel;
  /** Two or more rows with trained tokens. */
  readonly rows: readonly PackedRow[];
  readonly vocabSize: number;
}

const EMPTY: PackedRow = {
  tokenIds: Int32Array.of(1),
  positions: Int32Array.of(0),
  parents: Int32Array.of(-1),
  sources: new Int32Array(0),
  targets: new Int32Array(0),
};

/** Behaviour required of every `PolicyModel`. */
export function policyModelSuite(name: string, makeHarness: () => PolicyModelHarness): void {
  describe(`PolicyModel: ${name}`, () => {
    let harness: PolicyModelHarness;
    let model: PolicyModel;
    beforeEach(() => {
      harness = makeHarness();
      model = harness.open();
    });
    afterEach(() => model.close());

    const logprobs = async (row: PackedRow, options?: ForwardOptions): Promise<number[]> => [
      ...(await model.forward(row, options)).logprobs,
    ];
    const slopes = (row: PackedRow): Float32Array => {
      const random = randomSource(row.tokenIds.length);
      return Float32Array.from(row.targets, random);
    };
    const gradients = (): number[] => model.lora.tensors.flatMap(({ gradient }) => [...gradient]);
    const clear = (): void => {
      for (const { gradient } of model.lora.tensors) gradient.fill(0);
    };
    /** Gradient of Σ slope · (log-probability + entropy / 2). */
    const pass = async (row: PackedRow): Promise<void> => {
      await model.forward(row, { keepForBackward: true, keepForEntropy: true });
      await model.backward(slopes(row), { entropyGradient: slopes(row).map((slope) => slope / 2) });
    };
    const value = async (row: PackedRow): Promise<number> => {
      const output = await model.forward(row);
      return slopes(row).reduce((sum, slope, i) => sum + slope * (output.logprobs[i]! + output.entropies[i]! / 2), 0);
    };

    it('a fresh adapter changes nothing, and a trained one is left out on request', async () => {
      const [row] = harness.rows as [PackedRow];
      const base = await logprobs(row, { withoutAdapter: true });
      expect(base).toHaveLength(row.targets.length);
      expect(await logprobs(row)).toEqual(base);
      randomizeAdapter(model.lora, randomSource(3));
      expect(await logprobs(row)).not.toEqual(base);
      expect(await logprobs(row, { withoutAdapter: true })).toEqual(base);
    });

    it('the same row under the same weights gives the same bits: log-probabilities, entropies, gradients', async () => {
      randomizeAdapter(model.lora, randomSource(3));
      const [row] = harness.rows as [PackedRow];
      const outputs: number[][] = [];
      for (let time = 0; time < 2; time++) {
        clear();
        const output = await model.forward(row, { keepForBackward: true });
        expect([...output.entropies].every((entropy) => entropy > 0)).toBe(true);
        outputs.push([...output.logprobs, ...output.entropies]);
        await model.backward(slopes(row));
        outputs.at(-1)!.push(...gradients());
      }
      expect(outputs[0]).toEqual(outputs[1]);
    });

    it.each<LoraHalf>(['a', 'b'])('gradients of half %s equal finite differences', async (half) => {
      randomizeAdapter(model.lora, randomSource(3));
      const [row] = harness.rows as [PackedRow];
      clear();
      await pass(row);
      const random = randomSource(17);
      const tensors = model.lora.tensors.filter((tensor) => tensor.half === half);
      const directions = tensors.map((tensor) => Float32Array.from(tensor.value, random));
      const originals = tensors.map((tensor) => tensor.value.slice());
      const analytic = tensors.reduce(
        (sum, { gradient }, t) => gradient.reduce((part, slope, i) => part + slope * directions[t]![i]!, sum),
        0,
      );
      const shifted = async (epsilon: number): Promise<number> => {
        tensors.forEach((tensor, t) =>
          tensor.value.forEach((_, i) => (tensor.value[i] = originals[t]![i]! + epsilon * directions[t]![i]!)),
        );
        return await value(row);
      };
      // Five points: truncation ε⁴, which hides float32 rounding.
      const epsilon = 4e-3;
      const near = (await shifted(epsilon)) - (await shifted(-epsilon));
      const far = (await shifted(2 * epsilon)) - (await shifted(-2 * epsilon));
      const numeric = (8 * near - far) / (12 * epsilon);
      console.log(`${name}, half ${half}: slope ${analytic.toFixed(5)}, finite differences ${numeric.toFixed(5)}`);
      expect(Math.abs(analytic - numeric)).toBeLessThan(4e-3 * Math.max(1, Math.abs(analytic)));
    });

    it('gradients of passes add up until the caller clears them', async () => {
      randomizeAdapter(model.lora, randomSource(3));
      const alone: number[][] = [];
      for (const row of harness.rows) {
        clear();
        await pass(row);
        alone.push(gradients());
      }
      clear();
      for (const row of harness.rows) await pass(row);
      const together = gradients();
      const largest = Math.max(...together.map(Math.abs));
      expect(largest).toBeGreaterThan(1e-3);
      together.forEach((sum, i) => {
        const parts = alone.reduce((all, one) => all + one[i]!, 0);
        expect(Math.abs(sum - parts)).toBeLessThan(1e-5 * Math.max(1, largest));
      });
    });

    it('a row without trained tokens gives empty arrays; an unknown token is refused; a cancelled pass ends', async () => {
      const output = await model.forward(EMPTY);
      expect([output.logprobs.length, output.entropies.length]).toEqual([0, 0]);
      const [row] = harness.rows as [PackedRow];
      for (const bad of [-1, harness.vocabSize])
        await expect(model.forward({ ...row, targets: row.targets.map(() => bad) })).rejects.toMatchObject({
          code: 'trainer.token_out_of_range',
        });
      const signal = AbortSignal.abort();
      await expect(model.forward(row, { signal })).rejects.toMatchObject({ code: 'trainer.cancelled' });
      const before = await logprobs(row);
      await model.forward(row, { keepForBackward: true });
      await expect(model.backward(slopes(row), { signal })).rejects.toMatchObject({ code: 'trainer.cancelled' });
      expect(await logprobs(row)).toEqual(before);
    });
  });
}
