import { TINY_ARCHITECTURES, plainLogprobs, randomSource, tinyWeights } from '@trainyard/transformer/testing';
import { expect, test } from 'vitest';
import { parityRow } from '../export/parity.ts';
import { OrtPolicyModel } from './ort-policy-model.ts';

test.each(Object.entries(TINY_ARCHITECTURES))('%s: the graphs equal the float64 twin', async (name, architecture) => {
  const random = randomSource(7);
  const weights = tinyWeights(architecture, random);
  const tokenIds = Int32Array.from({ length: 40 }, () => Math.floor(((1 + random()) / 2) * architecture.vocabSize));
  const model = new OrtPolicyModel(architecture, weights, { numThreads: 1 });
  const { logprobs } = await model.forward(parityRow(tokenIds));
  model.close();
  const twin = plainLogprobs(architecture, weights, [...tokenIds]);
  const worst = Math.max(...logprobs.map((logprob, i) => Math.abs(logprob - twin[i]![tokenIds[i + 1]!]!)));
  console.log(`${name}: max |Δlogprob| ${worst.toExponential(1)}`);
  expect(worst).toBeLessThan(2e-5);
});
