/**
 * Main module of an inspection host: it looks at one model file and ends. llama.cpp reads the vocabulary and writes the half-precision copy, in a process of its
 * own as everywhere.
 */
import { connectHost, hostOptions, openOrRefuse } from '../hosts/host-main.ts';
import type { OpenEngineOptions } from '../hosts/inference/open-engine.ts';
import { inspectModel, type InspectedModel } from './inspect-model.ts';

const inspected = await openOrRefuse(() => inspectModel(hostOptions<OpenEngineOptions>()));
const { send } = connectHost<{ kind: 'shutdown' }, { kind: 'ready' } & InspectedModel>(() => process.exit(0));
send({ kind: 'ready', ...inspected });
