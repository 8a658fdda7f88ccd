/**
 * Main module of an inspection host: it looks at one model file and ends. llama.cpp reads the vocabulary and writes the half-precision copy, in a process of its
 * own as everywhere.
 */
import { answerAsHost, hostOptions } from '../process/host-main.ts';
import type { OpenEngineOptions } from '../inference/open-engine.ts';
import { inspectModel } from './inspect-model.ts';

await answerAsHost(() => inspectModel(hostOptions<OpenEngineOptions>()));
