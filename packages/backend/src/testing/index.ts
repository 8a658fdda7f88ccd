/** The suite that every back end passes, and the shortest back end that does: `@trainyard/backend/testing`. */
export { ScriptedTokenBackend } from './scripted-token-backend.ts';
export type { ScriptedLogits } from './scripted-token-backend.ts';
export { describeTokenBackend, sampleParams } from './token-backend.suite.ts';
export type { TokenBackendHarness } from './token-backend.suite.ts';
