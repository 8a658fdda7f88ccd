import { LINEAR_NAMES } from '@trainyard/transformer';
import { randomSource, TINY_ARCHITECTURE, tinyWeights } from '@trainyard/transformer/testing';
import { BIGRAM_ARCHITECTURE, BigramPolicy } from '../testing/bigram-policy.ts';
import { policyModelSuite } from '../testing/policy-model.suite.ts';
import { packTrie } from '../testing/pack-trie.ts';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';

/** One row with a shared prompt and a branch, one separate. */
const ROWS = [
  packTrie([
    [
      { tokenIds: [3, 9, 14, 20, 31, 7], numPrompt: 3 },
      { tokenIds: [3, 9, 14, 20, 5, 40, 11], numPrompt: 3 },
    ],
  ]),
  packTrie([[{ tokenIds: [17, 2, 45, 23, 8, 30, 1, 12], numPrompt: 2 }]]),
];
const LORA = { rank: 3, alpha: 6, targets: LINEAR_NAMES, initSeed: 1 };

policyModelSuite('closed form', () => ({
  open: () => new BigramPolicy(),
  rows: ROWS,
  vocabSize: BIGRAM_ARCHITECTURE.vocabSize,
}));

policyModelSuite('ONNX Runtime', () => ({
  open: () =>
    new OrtPolicyModel(TINY_ARCHITECTURE, tinyWeights(TINY_ARCHITECTURE, randomSource(11)), {
      lora: LORA,
      numThreads: 2,
    }),
  rows: ROWS,
  vocabSize: TINY_ARCHITECTURE.vocabSize,
}));
