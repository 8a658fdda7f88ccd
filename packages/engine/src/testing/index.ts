/** What tests of the packages above run in place of a model: `@trainyard/engine/testing`. */
export { ScriptedRunner } from './scripted-runner.ts';
export type { LogitsScript, ScriptedRunnerOptions } from './scripted-runner.ts';
export { openScriptedEngine } from './scripted-engine.ts';
export type { ScriptedContext, ScriptedEngine, ScriptedEngineOptions, ScriptedModel } from './scripted-engine.ts';
