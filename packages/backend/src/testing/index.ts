/** The suite that every back end passes, the shortest back end that does, and a server that answers nothing: `@trainyard/backend/testing`. */
export { ScriptedTokenBackend } from './scripted-token-backend.ts';
export type { ScriptedLogits } from './scripted-token-backend.ts';
export { openSwitchingServer } from './switching-server.ts';
export { describeTokenBackend, sampleParams } from './token-backend.suite.ts';
export type { TokenBackendHarness } from './token-backend.suite.ts';
