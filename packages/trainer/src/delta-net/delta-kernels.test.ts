/** Loops over states in C against those in TypeScript. */
import { kernelInstructionSets } from '@trainyard/native';
import { DeltaHead, type DeltaNet, deltaSizes } from '@trainyard/transformer';
import { randomSource } from '@trainyard/transformer/testing';
import { expect, test } from 'vitest';
import { DeltaRows } from './delta-rows.ts';
import { DeltaScratch } from './delta-scratch.ts';

const NETS: readonly Omit<DeltaNet, 'layers'>[] = [
  { numKeyHeads: 2, numValueHeads: 4, keySize: 16, valueSize: 16, convolutionSize: 4 },
  { numKeyHeads: 1, numValueHeads: 1, keySize: 128, valueSize: 128, convolutionSize: 4 },
  { numKeyHeads: 1, numValueHeads: 2, keySize: 24, valueSize: 40, convolutionSize: 2 },
];

/** More than two chunks, with two forks. */
const PARENTS = Int32Array.from({ length: 80 }, (_, token) => (token === 70 ? 20 : token === 75 ? 20 : token - 1));

test.runIf(kernelInstructionSets().length > 0).each(NETS)(
  '$numValueHeads value heads of $keySize × $valueSize: outputs have equal bits, gradients nearly',
  (sizes) => {
    const net = { ...sizes, layers: [0] };
    const { channels, width, values } = deltaSizes(net);
    const random = randomSource(net.keySize);
    const numbers = (length: number) => Float32Array.from({ length }, random);
    const vectors = {
      convolution: numbers(net.convolutionSize * channels),
      decay: numbers(net.numValueHeads).map((value) => -Math.abs(value)),
      step: numbers(net.numValueHeads),
      norm: numbers(net.valueSize),
    };
    const row = { parents: PARENTS, products: numbers(PARENTS.length * width) };
    const dOutputs = numbers(PARENTS.length * values);
    const [native, plain] = [true, false].map((usesNativeKernels) => {
      const head = new DeltaHead(net, vectors, 1e-6, usesNativeKernels);
      expect(head.kernels === null).toBe(!usesNativeKernels);
      const rows = new DeltaRows(head, new DeltaScratch(net));
      const outputs = new Float32Array(PARENTS.length * values);
      const gradients = new Float32Array(PARENTS.length * width);
      for (let keyHead = 0; keyHead < net.numKeyHeads; keyHead++) {
        rows.forward(keyHead, row, outputs);
        rows.backward(keyHead, row, dOutputs, gradients);
      }
      return { outputs, gradients };
    });
    expect(native!.outputs).toEqual(plain!.outputs);
    const largest = plain!.gradients.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const difference = native!.gradients.reduce(
      (most, value, i) => Math.max(most, Math.abs(value - plain!.gradients[i]!)),
      0,
    );
    console.log(
      `${net.keySize} × ${net.valueSize}: largest difference of a gradient ${(difference / largest).toExponential(1)} of the largest`,
    );
    expect(difference / largest).toBeLessThan(1e-6);
  },
);
