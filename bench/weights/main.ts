/**
 * Resident against streamed weights:   npm run bench -- weights [--shape default|135M|270M|0.6B|1.7B] [--rounds 3] [--only memory|speed] [--mode streamed] [--machine-gigabytes 3]
 *
 * Memory: a service samples a group of eight and trains it, once per mode; peak memory of its processes against the
 * prediction. `--machine-gigabytes`: as on a machine of that size. Speed: the trainer and the decoder alone, both modes
 * in turns in one process; only ratios within a round mean something while other programs run.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { machineMemory } from '@trainyard/trainer';

import { defaultModelPath } from '../../scripts/own-service.ts';
import { machineLine, otherCores, sampleCpu } from '../machine.ts';
import { SHAPES } from '../models/shapes.ts';
import { writeRandomModel } from '../models/write-random-model.ts';
import { DecoderTimes } from './decoder-times.ts';
import { measureMemory } from './service-memory.ts';
import { trainerTimes } from './trainer-times.ts';

const MODES = ['resident', 'streamed'] as const;
const STEP_ROWS = [1, 4, 16, 64];

const { values } = parseArgs({
  options: {
    shape: { type: 'string', default: 'default' },
    rounds: { type: 'string', default: '3' },
    only: { type: 'string' },
    /** One mode, for models of which only one fits. */
    mode: { type: 'string' },
    'machine-gigabytes': { type: 'string' },
    'completion-tokens': { type: 'string', default: '64' },
  },
});
const modes = MODES.filter((mode) => values.mode === undefined || mode === values.mode);
const path = modelPath(values.shape);
console.log(`${machineLine()}; ${values.shape} (${path})`);

if (values.only !== 'speed') {
  for (const mode of modes) {
    const { byProcess, peakBytes, predictedBytes, seconds } = await measureMemory(path, {
      weights: mode,
      completionTokens: Number(values['completion-tokens']),
      machineBytes:
        values['machine-gigabytes'] === undefined ? machineMemory() : 1e9 * Number(values['machine-gigabytes']),
    });
    const parts = byProcess.map(({ name, bytes }) => `${name} ${megabytes(bytes)}`).join(', ');
    console.log(
      `memory, ${mode}: peak ${megabytes(peakBytes)} (${parts}), predicted ${megabytes(predictedBytes)}: ` +
        `${(100 * (peakBytes / predictedBytes - 1)).toFixed(0)} %; sampling ${seconds.sampling.toFixed(1)} s, training ${seconds.training.toFixed(1)} s`,
    );
  }
}
if (values.only !== 'memory') {
  const before = sampleCpu();
  const trainer = await trainerTimes(path, modes);
  const decoder = new DecoderTimes(path, modes);
  for (let round = 0; round < Number(values.rounds); round++) {
    const order = round % 2 === 0 ? modes : modes.toReversed();
    const steps = new Map<string, number>();
    for (const mode of order) steps.set(mode, await trainer.step(mode, round));
    console.log(line(round, 'training step of 8 × (384 + 64)', steps));
    for (const rows of STEP_ROWS) {
      const times = new Map(order.map((mode) => [mode, decoder.step(mode, rows)]));
      console.log(line(round, `sampling step of ${rows}`, times));
    }
  }
  trainer.close();
  decoder.close();
  console.log(`other processes used ${(otherCores(before, sampleCpu()) ?? NaN).toFixed(2)} cores`);
}
process.exit(0);

function modelPath(name: string): string {
  if (name === 'default') return defaultModelPath();
  const shape = SHAPES[name];
  if (shape === undefined) throw new Error(`--shape must be default or ${Object.keys(SHAPES).join(', ')}`);
  const directory = join(tmpdir(), 'trainyard-shapes');
  mkdirSync(directory, { recursive: true });
  const file = join(directory, `${name}.Q4_0.gguf`);
  if (!existsSync(file)) writeRandomModel(defaultModelPath(), shape, file);
  return file;
}

function line(round: number, what: string, seconds: ReadonlyMap<string, number>): string {
  const each = modes.map((mode) => `${mode} ${seconds.get(mode)!.toFixed(3)} s`);
  const [resident, streamed] = [seconds.get('resident'), seconds.get('streamed')];
  const ratio = resident === undefined || streamed === undefined ? '' : `, ratio ${(streamed / resident).toFixed(2)}`;
  return `round ${round + 1}, ${what}: ${each.join(', ')}${ratio}`;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(0)} MB`;
}
