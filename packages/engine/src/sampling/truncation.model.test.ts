import { keptByLlamaTopNSigma } from '@trainyard/native/testing';
import { NO_TRUNCATION } from '@trainyard/protocol/fields';
import { expect, test } from 'vitest';
import { RandomStream } from './random.ts';
import { SamplerBuffers } from './sampler.ts';
import { scanMaxima } from '@trainyard/decoder';
import { truncationThreshold } from './truncation.ts';

test('top_n_sigma keeps the same tokens as llama.cpp’s own sampler', () => {
  const random = new RandomStream(17n);
  let numKept = 0;
  let numDropped = 0;
  for (let numRows = 0; numRows < 400; numRows++) {
    const length = 2 + Math.floor(2000 * random.uniform());
    const row = Float32Array.from({ length }, () => (random.uniform() < 0.1 ? -Infinity : 40 * random.uniform() - 20));
    row[0] = 0; // never all masked
    const topNSigma = 4 * random.uniform();
    const buffers = new SamplerBuffers(length);
    scanMaxima(row, buffers.scan);
    const settings = { ...NO_TRUNCATION, topNSigma };
    const threshold = truncationThreshold(row, { ...settings, temperature: 1 }, buffers);
    const kept = Array.from(row.keys()).filter((id) => row[id]! >= threshold && row[id]! > -Infinity);
    expect(kept).toEqual(keptByLlamaTopNSigma(row, topNSigma));
    numKept += kept.length;
    numDropped += length - kept.length;
  }
  console.log(`400 rows: the same ${numKept} tokens kept, ${numDropped} dropped or masked`);
});
