import { GgufFile } from '@trainyard/native';
import { readArchitecture } from '@trainyard/transformer';
import { expect, test } from 'vitest';
import { testModel } from '../../../../tests/support/model.ts';
import { DecoderGraphs } from './decoder-graphs.ts';

test.runIf(process.platform === 'linux')('closed graphs free the memory of their weights', () => {
  using file = GgufFile.open(testModel().small);
  const architecture = readArchitecture(file);
  const graphs = new DecoderGraphs(file, architecture, 2);
  const { hiddenSize, vocabSize, feedForwardSize, numLayers } = architecture;
  const weightBytes = 4 * hiddenSize * (vocabSize + 3 * numLayers * feedForwardSize);
  const before = process.memoryUsage.rss();
  graphs.close();
  const given = before - process.memoryUsage.rss();
  console.log(`of ${(weightBytes / 1e6).toFixed(0)} MB and more ${(given / 1e6).toFixed(0)} were given back`);
  expect(given).toBeGreaterThan(weightBytes / 2);
});
