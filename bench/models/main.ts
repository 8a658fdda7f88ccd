/**
 * A table to plan by: reinforcement-learning steps of 64 rollouts on models of several sizes, by number of cores.
 *
 *   npm run bench -- models                               all shapes on 1, 2, 4 … cores
 *   npm run bench -- models --only 135M --cores 2
 *   npm run bench -- models --gemma FILE                  the real Gemma 3 270M instead of its shape
 *   npm run bench -- models --write                       also writes the table that `trainyard doctor --model` reads
 *   npm run bench -- models --short                       a tiny shape; its figures mean nothing
 *
 * Weights are random and in Q4_0, with the vocabulary of the default model: speed and memory do not depend on their
 * values. Each figure is from one step after a small first one, over HTTP, on a service of its own.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { trainingFacts } from '@trainyard/engine';
import { Trainyard } from '@trainyard/sdk';
import type { MeasuredStep, MeasuredSteps } from '@trainyard/server';

import { defaultModelPath, ownService } from '../../scripts/own-service.ts';
import { MemoryWatch } from '../crowd/memory-watch.ts';
import { machineLine, otherCores, sampleCpu, waitUntilQuiet } from '../machine.ts';
import { markdownTable } from '../markdown-table.ts';
import { settingsEnvironment } from '../settings-environment.ts';
import { FULL, measureStep, SHORT, type StepFigures } from './measure-step.ts';
import { SHAPES, TINY } from './shapes.ts';
import { writeRandomModel } from './write-random-model.ts';

const TABLE_FILE = resolve(import.meta.dirname, '../../packages/server/src/service/planning/measured-steps.ts');

/** The real Gemma 3 270M is a base model: its file has no chat template. */
const GEMMA_SETTINGS = {
  TRAINYARD_CHAT_TEMPLATE: resolve(import.meta.dirname, '../../examples/learning/gemma-turns.jinja'),
};

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: [] },
    cores: { type: 'string', multiple: true, default: [] },
    gemma: { type: 'string' },
    settings: { type: 'string', multiple: true, default: [] },
    write: { type: 'boolean', default: false },
    trial: { type: 'boolean', default: false },
    short: { type: 'boolean', default: false },
    'max-wait': { type: 'string', default: '60' },
  },
});
const shapes = values.short ? { tiny: TINY } : SHAPES;
const names = values.only.length === 0 ? Object.keys(shapes) : values.only;
const unknown = names.find((name) => !Object.hasOwn(shapes, name));
if (unknown !== undefined) refuse(`unknown shape "${unknown}"; the shapes are ${Object.keys(shapes).join(', ')}`);
const cores = values.cores.length === 0 ? powersOfTwo(availableParallelism()) : values.cores.map(Number);
if (!cores.every((count) => Number.isInteger(count) && count >= 1 && count <= availableParallelism()))
  refuse(
    `--cores must be from 1 to ${availableParallelism()}, the cores of this machine, got ${values.cores.join(', ')}`,
  );

interface Row {
  readonly step: MeasuredStep;
  /** Cores that other processes used meanwhile; null: unknown. */
  readonly others: number | null;
}

const quiet = await waitUntilQuiet(Number(values['max-wait']) * 1000);
console.log(`${machineLine()}; other processes use ${quiet?.toFixed(2) ?? 'n/a'} cores at the start`);

const rows: Row[] = [];
const folder = mkdtempSync(join(tmpdir(), 'trainyard-models-'));
try {
  for (const name of names) {
    const isReal = name === '270M' && values.gemma !== undefined;
    const path = isReal ? resolve(values.gemma!) : join(folder, `${name}.gguf`);
    if (!isReal) writeRandomModel(defaultModelPath(), shapes[name as keyof typeof shapes]!, path);
    const { parameters } = trainingFacts(path);
    for (const count of cores) {
      const { others, ...figures } = await measured(path, count, isReal ? GEMMA_SETTINGS : {});
      const step = { shape: isReal ? `${name}, real` : name, parameters, cores: count, ...figures };
      rows.push({ step, others });
      if (values.write) writeTable();
      process.stderr.write(
        `${step.shape} on ${count}: sampled ${figure(step.sampledPerSecond)} tok/s, trained ${figure(step.trainedPerSecond)} tok/s, a step ${figure(step.stepSeconds)} s\n`,
      );
    }
    if (!isReal) rmSync(path);
  }
} finally {
  rmSync(folder, { recursive: true });
}

console.log(`\n${table(rows)}`);
if (values.write) console.log(`\nWritten to ${TABLE_FILE}; run npm run format`);

/** After each row, so that a stopped run keeps its rows. */
function writeTable(): void {
  // A quarter of a core of others already distorts a step.
  const isTrial = values.trial || rows.some(({ others }) => others === null || others > 0.25);
  const steps: MeasuredSteps = { machine: machineLine(), isTrial, rows: rows.map(({ step }) => step) };
  const text = `/** Written by \`npm run bench -- models --write\`. */
import type { MeasuredSteps } from './predict-step.ts';

export const MEASURED_STEPS: MeasuredSteps = ${JSON.stringify(steps, null, 2)};
`;
  writeFileSync(TABLE_FILE, text);
}

async function measured(
  path: string,
  count: number,
  environment: Readonly<Record<string, string>>,
): Promise<StepFigures & { readonly peakBytes: number; readonly others: number | null }> {
  const service = await ownService({
    environment: {
      ...settingsEnvironment(values.settings),
      TRAINYARD_MODEL: path,
      TRAINYARD_MODEL_ID: 'measured',
      TRAINYARD_THREADS: String(count),
      ...environment,
    },
  });
  try {
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
    const memory = new MemoryWatch(service.pid);
    const before = sampleCpu();
    const figures = await measureStep(client, values.short ? SHORT : FULL);
    const others = otherCores(before, sampleCpu());
    const peakBytes = memory.stop().reduce((sum, { peak }) => sum + peak, 0);
    return { ...figures, peakBytes, others };
  } finally {
    await service.close();
  }
}

function table(all: readonly Row[]): string {
  const head = [
    'model',
    'weights, million',
    'cores',
    'sampled, tok/s',
    'trained, tok/s',
    'step of 64 rollouts, s',
    'memory, GB',
    '÷ one core',
    'others',
  ];
  const one = new Map(all.flatMap(({ step }) => (step.cores === 1 ? [[step.shape, step.stepSeconds] as const] : [])));
  return markdownTable(
    head,
    all.map(({ step, others }) => [
      step.shape,
      (step.parameters.total / 1e6).toFixed(0),
      String(step.cores),
      figure(step.sampledPerSecond),
      figure(step.trainedPerSecond),
      figure(step.stepSeconds),
      (step.peakBytes / 1e9).toFixed(1),
      one.has(step.shape) ? (one.get(step.shape)! / step.stepSeconds).toFixed(2) : '–',
      others?.toFixed(2) ?? 'n/a',
    ]),
  );
}

function figure(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

function powersOfTwo(most: number): number[] {
  return Array.from({ length: Math.floor(Math.log2(most)) + 1 }, (_, power) => 2 ** power);
}

function refuse(message: string): never {
  console.error(message);
  process.exit(2);
}
