/** Models and data with known answers, for tests of this package and of those that build on it. */
export { BIGRAM_ARCHITECTURE, BIGRAM_LORA, BigramPolicy } from './bigram-policy.ts';
export { answer, byteTemplate, choice, END_TOKEN, group, message } from './chat-groups.ts';
export { learnerSessionSuite, type LearnerHarness } from './learner-session.suite.ts';
export { localParts } from './local-parts.ts';
export { plainLoss, plainTokenLosses } from './plain-loss.ts';
export { policyModelSuite, type PolicyModelHarness } from './policy-model.suite.ts';
export { ScriptedLearner } from './scripted-learner.ts';
export { TINY_ARCHITECTURES, writeTinyGguf } from './tiny-gguf.ts';
export {
  packTrie,
  randomizeAdapter,
  randomSource,
  TINY_ARCHITECTURE,
  tinyWeights,
  type TinySequence,
} from './tiny-model.ts';
