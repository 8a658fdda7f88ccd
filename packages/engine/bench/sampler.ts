/**
 * Milliseconds per sampled row at V = 49,152, and their share of a step of 32 sequences (F16 file, two cores:
 * about 171 ms). Run: node --conditions=@trainyard/source packages/engine/bench/sampler.ts
 */
import { NO_TRUNCATION } from '@trainyard/protocol/fields';
import { mostLikelyTokens, SamplerBuffers, sampleToken } from '../src/sampling/sampler.ts';
import type { SamplingSettings } from '../src/sampling/sampler.ts';
import { RandomStream } from '../src/sampling/random.ts';
import { allow, createTokenMask } from '@trainyard/backend';
import { maskRow } from '../src/sampling/mask-row.ts';
import { NO_ADJUSTMENTS, type TokenAdjustments } from '@trainyard/decoder';

const V = 49_152;
const NUM_ROWS = 32;
const NUM_STEPS = 40;
const STEP_MS = 171;

const random = new RandomStream(1n);
const normal = (): number => Math.sqrt(-2 * Math.log(1 - random.uniform())) * Math.cos(2 * Math.PI * random.uniform());
// Like a language model's: most logits within a few nats, a handful far above.
const rows = Array.from({ length: NUM_ROWS }, () => {
  const row = Float32Array.from({ length: V }, () => 3 * normal());
  for (let i = 0; i < 40; i++) row[Math.floor(random.uniform() * V)] = 12 + 2 * normal();
  return row;
});
const seen = new Set(Array.from({ length: 400 }, (_, i) => i * 17));
const penalised: TokenAdjustments = {
  ...NO_ADJUSTMENTS,
  repetitionPenalty: 1.1,
  presencePenalty: 0.5,
  promptIds: seen,
  generatedCounts: new Map([[5, 2]]),
};
const plain: SamplingSettings = { temperature: 1, ...NO_TRUNCATION };

const cases: [string, SamplingSettings, TokenAdjustments, number | null][] = [
  ['greedy', { ...plain, temperature: 0 }, NO_ADJUSTMENTS, null],
  ['temperature 1', plain, NO_ADJUSTMENTS, null],
  ['temperature 1, logprobs (a rollout)', plain, NO_ADJUSTMENTS, 0],
  ['temperature 1, logprobs with top 5', plain, NO_ADJUSTMENTS, 5],
  ['temperature 0.7, logprobs', { ...plain, temperature: 0.7 }, NO_ADJUSTMENTS, 0],
  ['top_p 0.95', { ...plain, topP: 0.95 }, NO_ADJUSTMENTS, null],
  ['top_k 50, top_p 0.95', { ...plain, topK: 50, topP: 0.95 }, NO_ADJUSTMENTS, null],
  ['min_p 0.05', { ...plain, minP: 0.05 }, NO_ADJUSTMENTS, null],
  ['penalties, temperature 0.7, top_p 0.9, logprobs', { ...plain, temperature: 0.7, topP: 0.9 }, penalised, 0],
];

const buffers = new SamplerBuffers(V);
function stepMs([, settings, adjustments, numTop]: (typeof cases)[number]): number {
  const start = performance.now();
  for (const row of rows) {
    const logprobs = numTop === null ? null : 'raw';
    sampleToken(row, { settings, key: random.drawKey(), adjustments, logprobs }, buffers);
    if (numTop) mostLikelyTokens(row, numTop, buffers);
  }
  return performance.now() - start;
}
function mathExpMs(): number {
  const start = performance.now();
  for (const row of rows) {
    let max = -Infinity;
    for (let i = 0; i < V; i++) if (row[i]! > max) max = row[i]!;
    let sum = 0;
    for (let i = 0; i < V; i++) sum += Math.exp(row[i]! - max);
    const target = random.uniform() * sum;
    let running = 0;
    for (let i = 0; i < V && running <= target; i++) running += Math.exp(row[i]! - max);
  }
  return performance.now() - start;
}
// Median of interleaved runs: other processes disturb some of them.
const times = new Map<string, number[]>();
const record = (name: string, ms: number): void => void times.set(name, [...(times.get(name) ?? []), ms]);
const masks = [10, V / 2].map((numAllowed) => {
  const mask = createTokenMask(V);
  allow(
    mask,
    Array.from({ length: numAllowed }, () => Math.floor(random.uniform() * V)),
  );
  return { name: `(constraint mask, about ${numAllowed} tokens allowed)`, mask };
});
const masked = new Float32Array(V);
function maskMs(mask: Uint32Array): number {
  const start = performance.now();
  for (let row = 0; row < NUM_ROWS; row++) maskRow(masked, mask);
  return performance.now() - start;
}
for (let step = 0; step < NUM_STEPS; step++) {
  for (const { name, mask } of masks) record(name, maskMs(mask));
  record('(plain Math.exp softmax and draw)', mathExpMs());
  for (const entry of cases) record(entry[0], stepMs(entry));
}
for (const [name, all] of times) {
  const median = all.slice(5).sort((a, b) => a - b)[Math.floor((all.length - 5) / 2)]!;
  console.log(
    `${(median / NUM_ROWS).toFixed(3)} ms a row, ${((100 * median) / STEP_MS).toFixed(1).padStart(4)} % of a step of ${NUM_ROWS}: ${name}`,
  );
}
