/** Fake models for tests of dependent packages: `@trainyard/engine/testing`. */
export { EmbeddedTokenBackend } from './embedded-token-backend.ts';
export { ScriptedRunner } from './scripted-runner.ts';
export type { LogitsScript, ScriptedRunnerOptions } from './scripted-runner.ts';
export { SteppedHarness } from './stepped-harness.ts';
export { Transcript } from './transcript.ts';
export { byteTokenizer, EOS, mixedLogits, replying, SECOND_END, VOCAB_SIZE } from './scripted-logits.ts';
export { BannedSequences } from '../sampling/banned-sequences.ts';
export { TokenStops } from '../tokens/token-stops.ts';
export type { TokenStopConditions } from '../tokens/token-stops.ts';
export { writeTestAdapter } from './write-test-adapter.ts';
