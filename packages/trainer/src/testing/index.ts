/** Models and data with known answers, for tests of this and dependent packages. */
export { BIGRAM_ARCHITECTURE, BIGRAM_LORA, BigramPolicy } from './bigram-policy.ts';
export { answer, byteTemplate, choice, END_TOKEN, group, message, twoTurns } from './chat-groups.ts';
export { learnerSessionSuite, type LearnerHarness } from './learner-session.suite.ts';
export { localParts } from './local-parts.ts';
export { packTrie, type TinySequence } from './pack-trie.ts';
export { plainLoss, plainTokenLosses } from './plain-loss.ts';
export { policyModelSuite, type PolicyModelHarness } from './policy-model.suite.ts';
export { randomizeAdapter } from './randomize-adapter.ts';
export { seededRandom } from '../packing/random.ts';
export { ScriptedLearner } from './scripted-learner.ts';
export { writeTinyFolder } from './tiny-folder.ts';
export {
  randomSource,
  TINY_ARCHITECTURE,
  TINY_ARCHITECTURES,
  tinyWeights,
  writeTinyGguf,
} from '@trainyard/transformer/testing';
