/**
 * The cost of `--precision strict`:   npx node --conditions=@trainyard/source bench/cache-precision.ts
 *
 * Contexts of every kind take their steps in turns, so that a slow minute affects all of them: prompts of 400
 * tokens with eight replies each, 64 sequences per step, as in rollouts. Prints the milliseconds of a step by
 * the clock and in processor time on one thread (which other processes disturb less), the ratio to the first
 * kind, and the difference of a token's log-probabilities between batch sizes.
 */
import { LlamaContext, LlamaModel } from '@trainyard/native';
import { parseArgs } from 'node:util';

import { machineLine, otherCores, sampleCpu } from './machine.ts';
import { median } from './percentile.ts';

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    'strict-model': { type: 'string' },
    steps: { type: 'string', default: '12' },
    threads: { type: 'string', default: '1' },
  },
});
const { model: halfPath, 'strict-model': singlePath } = values;
if (halfPath === undefined || singlePath === undefined)
  throw new Error('--model: a GGUF file in half precision, --strict-model: the same in single precision');
const numThreads = Number(values.threads);
const KINDS = {
  'exact (f16)': { cachePrecision: 'f16' },
  'strict (f32)': { cachePrecision: 'f32' },
} as const;
type Kind = keyof typeof KINDS;
const kinds = Object.keys(KINDS) as Kind[];
const [NUM_PROMPTS, NUM_REPLIES, PROMPT_TOKENS] = [8, 8, 400];

const [model, single] = [LlamaModel.load(halfPath), LlamaModel.load(singlePath)];
const words = 'The harbour keeps a log of ships, tides, cargo and weather, written by hand every evening. '.repeat(30);
const ids = Array.from(model.tokenize(words, { addSpecial: false, parseSpecial: false }));
const before = sampleCpu();
console.log(`${machineLine()}; ${numThreads} threads`);

interface Cost {
  wallMs: number;
  cpuMs: number;
}
const costs = new Map<Kind, { prefill: Cost[]; decode: Cost[] }>(
  kinds.map((kind) => [kind, { prefill: [], decode: [] }]),
);
const contexts = new Map(kinds.map((kind) => [kind, open(kind, 16_384)]));
for (let prompt = 0; prompt < NUM_PROMPTS; prompt++) {
  for (const [kind, context] of contexts) {
    context.batch.clear();
    for (let at = 0; at < PROMPT_TOKENS; at++)
      context.batch.add(tokenAt(at + 13 * prompt), at, prompt * NUM_REPLIES, false);
    costs.get(kind)!.prefill.push(timed(context));
    for (let reply = 1; reply < NUM_REPLIES; reply++)
      context.copySequence(prompt * NUM_REPLIES, prompt * NUM_REPLIES + reply, PROMPT_TOKENS);
  }
}
for (let step = 0; step < Number(values.steps); step++) {
  for (const [kind, context] of contexts) {
    context.batch.clear();
    for (let row = 0; row < NUM_PROMPTS * NUM_REPLIES; row++)
      context.batch.add(tokenAt(7 * step + row), PROMPT_TOKENS + step, row, true);
    costs.get(kind)!.decode.push(timed(context));
  }
}
for (const context of contexts.values()) context.close();
for (const [kind, { prefill, decode }] of costs) {
  const first = costs.get(kinds[0]!)!;
  const line = (name: string, own: readonly Cost[], base: readonly Cost[]): string =>
    `${name} ${medianOf(own, 'wallMs').toFixed(0)} ms, ${medianOf(own, 'cpuMs').toFixed(0)} ms of processor, speed ${(medianOf(base, 'cpuMs') / medianOf(own, 'cpuMs')).toFixed(3)}`;
  console.log(
    `${kind}: ${line('prefill of 400', prefill, first.prefill)}; ${line('step of 64', decode, first.decode)}`,
  );
}
for (const kind of kinds) console.log(`${kind}: ${spread(kind)}`);
const others = otherCores(before, sampleCpu());
console.log(`other processes computed on ${others === null ? 'n/a' : others.toFixed(2)} cores meanwhile`);
model.close();
single.close();

function open(kind: Kind, contextTokens: number): LlamaContext {
  return new LlamaContext(KINDS[kind].cachePrecision === 'f32' ? single : model, {
    contextTokens,
    maxSequences: 128,
    batchTokens: 1024,
    numThreads,
    ...KINDS[kind],
  });
}

function timed(context: LlamaContext): Cost {
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  context.decode();
  const wallMs = performance.now() - startedAt;
  const { user, system } = process.cpuUsage(cpu);
  return { wallMs, cpuMs: (user + system) / 1000 };
}

/** The same token after the same 200, in batches and chunks of several sizes. */
function spread(kind: Kind): string {
  const context = open(kind, 4096);
  const rows = new Map<string, Float64Array>();
  for (const [name, numOthers, chunk] of [
    ['with 1 other', 1, 512],
    ['alone', 0, 512],
    ['with 4 others', 4, 512],
    ['with 15 others', 15, 512],
    ['in chunks of 64', 1, 64],
    ['in chunks of 7', 1, 7],
  ] as const) {
    for (let sequence = 0; sequence < 20; sequence++) context.removeSequence(sequence, 0);
    for (let other = 1; other <= numOthers; other++) {
      context.batch.clear();
      for (let at = 0; at < 30; at++) context.batch.add(tokenAt(7 * at + other), at, other, false);
      context.decode();
    }
    for (let start = 0; start < 199; start += chunk) {
      context.batch.clear();
      for (let at = start; at < Math.min(199, start + chunk); at++) context.batch.add(tokenAt(at), at, 0, false);
      context.decode();
    }
    context.batch.clear();
    context.batch.add(tokenAt(199), 199, 0, true);
    for (let other = 1; other <= numOthers; other++) context.batch.add(tokenAt(other), 30, other, false);
    context.decode();
    rows.set(name, logSoftmax(context.logits().subarray(0, model.vocabSize)));
  }
  context.close();
  const base = rows.get('with 1 other')!;
  return [...rows]
    .slice(1)
    .map(([name, row]) => {
      const largest = row.reduce((most, value, id) => Math.max(most, Math.abs(value - base[id]!)), 0);
      return `${name} ${largest === 0 ? 'equal' : largest.toExponential(1)}`;
    })
    .join(', ');
}

function logSoftmax(logits: Float32Array): Float64Array {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const logSum = most + Math.log(logits.reduce((sum, value) => sum + Math.exp(value - most), 0));
  return Float64Array.from(logits, (value) => value - logSum);
}

function tokenAt(index: number): number {
  return ids[index % ids.length]!;
}

function medianOf(all: readonly Cost[], of: keyof Cost): number {
  return median(all.map((cost) => cost[of]));
}
