/**
 * Suite for every back end, the smallest back end that passes it, and a server without answers:
 * `@trainyard/backend/testing`.
 */
export { ScriptedTokenBackend } from './scripted-token-backend.ts';
export type { ScriptedLogits } from './scripted-token-backend.ts';
export { openSwitchingServer } from './switching-server.ts';
export { describeTokenBackend, sampleParams } from './token-backend.suite.ts';
export type { TokenBackendHarness } from './token-backend.suite.ts';
