/**
 * Main module of the engine host: llama.cpp and the scheduler, in a separate process so that a native crash
 * cannot end the API.
 */
import { hostOptions } from '../process/host-main.ts';
import { openEngine, type OpenEngineOptions } from './open-engine.ts';
import { serveText } from './serve-text.ts';

await serveText(() => openEngine(hostOptions<OpenEngineOptions>()));
