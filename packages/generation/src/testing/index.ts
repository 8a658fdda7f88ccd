/** Stand-ins for a model in tests of higher packages: `@trainyard/generation/testing`. */
export { asGuest, GUESTS } from './guests.ts';
export type { Guest } from './guests.ts';
export { openScriptedText } from './scripted-text.ts';
export { openScriptedEngine } from './scripted-engine.ts';
export type { ScriptedContext, ScriptedEngine, ScriptedEngineOptions, ScriptedModel } from './scripted-engine.ts';
