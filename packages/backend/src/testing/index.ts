/** What every back end passes, and one that is a function: `@trainyard/backend/testing`. */
export { ScriptedTokenBackend } from './scripted-token-backend.ts';
export type { ScriptedLogits } from './scripted-token-backend.ts';
export { describeTokenBackend, sampleParams } from './token-backend.suite.ts';
export type { TokenBackendHarness } from './token-backend.suite.ts';
