/**
 * Main module of an inspection host: inspects one model file and ends. llama.cpp reads the vocabulary and
 * writes the half-precision copy, in a separate process as everywhere.
 */
import { answerAsHost, hostOptions } from '../process/host-main.ts';
import type { OpenEngineOptions } from '../inference/open-engine.ts';
import { inspectModel } from './inspect-model.ts';

await answerAsHost(() => inspectModel(hostOptions<OpenEngineOptions>()));
