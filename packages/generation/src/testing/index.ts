/** What tests of the packages above run in place of a model: `@trainyard/generation/testing`. */
export { openScriptedEngine } from './scripted-engine.ts';
export type { ScriptedContext, ScriptedEngine, ScriptedEngineOptions, ScriptedModel } from './scripted-engine.ts';
