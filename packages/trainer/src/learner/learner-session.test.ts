import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LINEAR_NAMES, type LoraConfig } from '@trainyard/transformer';
import { randomSource, TINY_ARCHITECTURE, tinyWeights } from '@trainyard/transformer/testing';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';
import { BigramPolicy } from '../testing/bigram-policy.ts';
import { learnerSessionSuite, type LearnerHarness } from '../testing/learner-session.suite.ts';
import { ScriptedLearner } from '../testing/scripted-learner.ts';
import { packTrie } from '../testing/pack-trie.ts';
import type { TrainablePolicy } from '../model/policy-model.ts';
import { EmbeddedLearner } from './embedded-learner.ts';
import { LocalVersions } from './version-folders.ts';

/** Two rows: one with a shared prompt and a branch, one separate. */
const ROWS = [
  packTrie([
    [
      { tokenIds: [3, 9, 14, 20, 31, 7], numPrompt: 3 },
      { tokenIds: [3, 9, 14, 20, 5, 40, 11], numPrompt: 3 },
    ],
  ]),
  packTrie([[{ tokenIds: [17, 2, 45, 23, 8, 30, 1, 12], numPrompt: 2 }]]),
];

const LORA: LoraConfig = { rank: 3, alpha: 6, targets: LINEAR_NAMES, initSeed: 1 };

async function embedded(policy: () => TrainablePolicy): Promise<LearnerHarness> {
  const directory = await mkdtemp(join(tmpdir(), 'learner-'));
  const versions = new LocalVersions(directory);
  const open: EmbeddedLearner[] = [];
  return {
    open: async () => {
      const session = new EmbeddedLearner({ policy: policy(), versions });
      open.push(session);
      return session;
    },
    rows: ROWS,
    versionName: (label) => label,
    destroy: async () => {
      for (const session of open) await session.close();
      await rm(directory, { recursive: true });
    },
  };
}

const tinyPolicy = (): TrainablePolicy =>
  new OrtPolicyModel(TINY_ARCHITECTURE, tinyWeights(TINY_ARCHITECTURE, randomSource(11)), {
    lora: LORA,
    numThreads: 1,
  });

learnerSessionSuite('embedded, ONNX Runtime', () => embedded(tinyPolicy));
learnerSessionSuite('embedded, closed form', () => embedded(() => new BigramPolicy()));
learnerSessionSuite('scripted', async () => {
  const versions = new Map();
  return {
    open: async () => new ScriptedLearner(versions),
    rows: ROWS,
    versionName: (label) => `service://${label}`,
    destroy: async () => {},
  };
});
