import { afterEach, expect, test, vi } from 'vitest';

import { LINEAR_NAMES } from '@trainyard/transformer';
import { randomSource, TINY_ARCHITECTURE, tinyWeights } from '@trainyard/transformer/testing';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';
import type { PackedRow } from './policy-model.ts';
import { keeps, ReplayReader, type KeptSet, type LogitShifts, type RowReplay } from './row-replay.ts';
import { packTrie } from '../testing/pack-trie.ts';
import { randomizeAdapter } from '../testing/randomize-adapter.ts';

// Sessions of six graphs are compiled per model.
vi.setConfig({ testTimeout: 120_000 });

const VOCAB_SIZE = 1100; // several parts of the vocabulary, of two lanes
const open: OrtPolicyModel[] = [];
afterEach(() => {
  while (open.length > 0) open.pop()!.close();
});

function tinyModel(numThreads = 2): OrtPolicyModel {
  const random = randomSource(11);
  const architecture = { ...TINY_ARCHITECTURE, vocabSize: VOCAB_SIZE };
  const lora = { rank: 3, alpha: 6, targets: LINEAR_NAMES, initSeed: 1 };
  const model = new OrtPolicyModel(architecture, tinyWeights(architecture, random), { lora, numThreads });
  randomizeAdapter(model.lora, random);
  open.push(model);
  return model;
}

const idOf = randomSource(5);
const tokens = (length: number) => Array.from({ length }, () => Math.floor(((idOf() + 1) / 2) * VOCAB_SIZE));
const prompt = tokens(6);
const SEQUENCES = [5, 7, 3].map((length) => ({ tokenIds: [...prompt, ...tokens(length)], numPrompt: prompt.length }));

interface Draw {
  readonly temperature: number;
  readonly kept: KeptSet | null;
  readonly shifts: LogitShifts | null;
  readonly numGenerated: number;
}

/** Plain, tempered, masked by a few and by nearly all tokens, shifted, and all of that. */
const DRAWS: readonly (readonly Draw[])[] = SEQUENCES.map(({ tokenIds }, sequence) => {
  const reply = tokenIds.slice(prompt.length);
  const sorted = (ids: readonly number[]) => Int32Array.from(new Set(ids)).toSorted();
  const shifts: LogitShifts = {
    bias: [
      [reply[0]!, 2.5],
      [7, -3],
    ],
    repetitionPenalty: 1.3,
    frequencyPenalty: 0.4,
    presencePenalty: -0.3,
    promptTokenIds: Int32Array.from(prompt),
    tokenIds: Int32Array.from(reply),
  };
  return reply.map((id, place): Draw => {
    const few: KeptSet = { isComplement: false, ids: sorted([id, 3, 900, 901, ...tokens(9)]) };
    const most: KeptSet = { isComplement: true, ids: sorted(tokens(300)).filter((other) => other !== id) };
    const kind = (sequence + place) % 6;
    return {
      temperature: kind === 1 || kind === 5 ? 0.6 : kind === 2 ? 1.7 : 1,
      kept: kind === 2 || kind === 5 ? few : kind === 3 ? most : null,
      shifts: kind >= 4 ? shifts : null,
      numGenerated: place,
    };
  });
});

function replayOf(draws: readonly Draw[]): RowReplay {
  const keptSets = draws.flatMap(({ kept }) => kept ?? []);
  const shifts = [...new Set(draws.flatMap((draw) => draw.shifts ?? []))];
  return {
    temperatures: Float64Array.from(draws, ({ temperature }) => temperature),
    keptSet: Int32Array.from(draws, ({ kept }) => (kept === null ? -1 : keptSets.indexOf(kept))),
    keptSets,
    shift: Int32Array.from(draws, (draw) => (draw.shifts === null ? -1 : shifts.indexOf(draw.shifts))),
    numGenerated: Int32Array.from(draws, ({ numGenerated }) => numGenerated),
    shifts,
  };
}

const ROW: PackedRow = { ...packTrie([SEQUENCES]), replay: replayOf(DRAWS.flat()) };

/** Reference in float64, from the model's log-probabilities of the whole vocabulary. */
function plainly(raw: Float64Array, id: number, { temperature, kept, shifts, numGenerated }: Draw) {
  const logits = raw.slice();
  if (shifts !== null) {
    const generated = Array.from(shifts.tokenIds.subarray(0, numGenerated));
    for (const [biased, bias] of shifts.bias) logits[biased]! += bias;
    for (const seen of new Set([...generated, ...shifts.promptTokenIds])) {
      const logit = logits[seen]!;
      const penalised = logit > 0 ? logit / shifts.repetitionPenalty : logit * shifts.repetitionPenalty;
      logits[seen] = Math.max(-1e30, Math.min(1e30, penalised));
    }
    for (const seen of new Set(generated)) {
      const count = generated.filter((other) => other === seen).length;
      logits[seen]! -= shifts.frequencyPenalty * count + shifts.presencePenalty;
    }
  }
  const drawn = logits.map((logit, other) => (kept === null || keeps(kept, other) ? logit / temperature : -Infinity));
  const top = drawn.reduce((max, logit) => Math.max(max, logit), -Infinity);
  // The largest goes first: next to 1e30 a logarithm is lost.
  const logTotal = Math.log(drawn.reduce((sum, logit) => sum + Math.exp(logit - top), 0));
  const entropy = drawn.reduce((sum, logit) => {
    const logprob = logit - top - logTotal;
    return logprob === -Infinity ? sum : sum - Math.exp(logprob) * logprob;
  }, 0);
  return { logprob: drawn[id]! - top - logTotal, entropy };
}

test('log-probabilities and entropies are those of the distribution that was drawn from', async () => {
  const model = tinyModel();
  const { logprobs, entropies } = await model.forward(ROW);
  const ids = Int32Array.from({ length: VOCAB_SIZE }, (_, id) => id);
  let worst = 0;
  for (const [i, draw] of DRAWS.flat().entries()) {
    const sources = new Int32Array(VOCAB_SIZE).fill(ROW.sources[i]!);
    // A penalty depends on the logit's sign, so raw logits are needed: from the shift of a draw with only one token.
    const raw = await rawLogits(model, { ...ROW, sources, targets: ids, replay: null });
    const expected = plainly(raw, ROW.targets[i]!, draw);
    worst = Math.max(worst, Math.abs(expected.logprob - logprobs[i]!), Math.abs(expected.entropy - entropies[i]!));
  }
  console.log(`largest difference of a log-probability or an entropy: ${worst.toExponential(1)}`);
  expect(worst).toBeLessThan(2e-5);
});

test.each([1e-300, 1e-30, 1e-6, 1e6, 1e30, 1e300])(
  'a repetition penalty of %d gives probabilities',
  async (penalty) => {
    const model = tinyModel();
    const draws = ROW.targets.reduce<Draw[]>((all, target, i) => {
      const { temperature, kept } = DRAWS.flat()[i]!;
      const shifts: LogitShifts = {
        bias: [[7, -3]],
        repetitionPenalty: penalty,
        frequencyPenalty: 0.4,
        presencePenalty: 0,
        // If the penalty lifts logits, it lifts that of the token itself, too.
        promptTokenIds: Int32Array.from([...prompt, ...(i % 2 === 0 ? [target] : [])]),
        tokenIds: Int32Array.from([target]),
      };
      // For some, all drawable tokens are shifted.
      const own =
        i % 5 === 0 ? { isComplement: false, ids: Int32Array.from(new Set([...prompt, target])).toSorted() } : kept;
      return [
        ...all,
        { temperature: i % 4 === 0 ? 0.01 : temperature, kept: own, shifts, numGenerated: i % 3 === 0 ? 1 : 0 },
      ];
    }, []);
    const row: PackedRow = { ...ROW, replay: replayOf(draws) };
    for (const tensor of model.lora.tensors) tensor.gradient.fill(0);
    const { logprobs, entropies } = await model.forward(row, { keepForBackward: true, keepForEntropy: true });
    const found = { logprobs: logprobs.slice(), entropies: entropies.slice() };
    const ones = new Float32Array(row.targets.length).fill(1);
    await model.backward(ones, { entropyGradient: ones });
    for (const { gradient } of model.lora.tensors) expect(gradient.every(Number.isFinite)).toBe(true);
    const ids = Int32Array.from({ length: VOCAB_SIZE }, (_, id) => id);
    let worst = 0;
    for (const [i, draw] of draws.entries()) {
      const sources = new Int32Array(VOCAB_SIZE).fill(row.sources[i]!);
      const raw = await rawLogits(model, { ...row, sources, targets: ids, replay: null });
      const expected = plainly(raw, row.targets[i]!, draw);
      const logprob = found.logprobs[i]!;
      expect(logprob).toBeLessThanOrEqual(0);
      expect(logprob).toBeGreaterThan(-Infinity);
      // For a token without probability, the log-probability has only the digits of logits.
      if (expected.logprob < -1000) expect(logprob / expected.logprob).toBeCloseTo(1, 2);
      else worst = Math.max(worst, Math.abs(expected.logprob - logprob));
      worst = Math.max(worst, Math.abs(expected.entropy - found.entropies[i]!));
    }
    console.log(`penalty ${penalty}: largest difference of a log-probability or an entropy: ${worst.toExponential(1)}`);
    // Logits agree to 1e-5; at a temperature of 0.01 that is 1e-3.
    expect(worst).toBeLessThan(2e-3);
  },
);

/** Measured by a repetition penalty of 2 or ½: a doubled logit grows by its own value. */
async function rawLogits(model: OrtPolicyModel, row: PackedRow): Promise<Float64Array> {
  const { logprobs } = await model.forward(row);
  const [a, b] = [0, 1];
  const only: KeptSet = { isComplement: false, ids: Int32Array.of(a, b) };
  // log p(a) among {a, b} with a bias of 50 on a, so that its logit is positive, and a penalty of 2: (z + 50) / 2 - z_b
  const shifts: LogitShifts = {
    bias: [[a, 50]],
    repetitionPenalty: 2,
    frequencyPenalty: 0,
    presencePenalty: 0,
    promptTokenIds: Int32Array.of(a),
    tokenIds: new Int32Array(),
  };
  const draws = [{ temperature: 8, kept: only, shifts, numGenerated: 0 }];
  const probe = { ...row, sources: row.sources.slice(0, 1), targets: Int32Array.of(a), replay: replayOf(draws) };
  const logprob = (await model.forward(probe)).logprobs[0]!;
  // log odds · 8 = (z_a + 50) / 2 - z_b and z_a - z_b is known
  const odds = 8 * (logprob - Math.log1p(-Math.exp(logprob)));
  const difference = logprobs[a]! - logprobs[b]!;
  const za = 2 * (25 + difference - odds);
  return Float64Array.from(logprobs, (value) => value - logprobs[a]! + za);
}

test('gradients of log-probabilities and of entropies equal finite differences', async () => {
  const model = tinyModel();
  const [ofLogprobs, ofEntropies] = [3, 8].map((seed) => Float32Array.from(ROW.targets, randomSource(seed))) as [
    Float32Array,
    Float32Array,
  ];
  const loss = async () => {
    const { logprobs, entropies } = await model.forward(ROW);
    return logprobs.reduce((sum, one, i) => sum + one * ofLogprobs[i]! + entropies[i]! * ofEntropies[i]!, 0);
  };
  for (const tensor of model.lora.tensors) tensor.gradient.fill(0);
  await model.forward(ROW, { keepForBackward: true, keepForEntropy: true });
  await model.backward(ofLogprobs, { entropyGradient: ofEntropies });
  const direction = randomSource(17);
  const steps = model.lora.tensors.map(({ value }) => Float32Array.from(value, direction));
  const analytic = model.lora.tensors.reduce(
    (sum, { gradient }, t) => sum + gradient.reduce((part, g, i) => part + g * steps[t]![i]!, 0),
    0,
  );
  const originals = model.lora.tensors.map(({ value }) => value.slice());
  const shifted = async (epsilon: number) => {
    model.lora.tensors.forEach(({ value }, t) =>
      value.forEach((_value, i) => (value[i] = originals[t]![i]! + epsilon * steps[t]![i]!)),
    );
    return await loss();
  };
  const epsilon = 2e-3;
  const numeric =
    (8 * ((await shifted(epsilon)) - (await shifted(-epsilon))) -
      ((await shifted(2 * epsilon)) - (await shifted(-2 * epsilon)))) /
    (12 * epsilon);
  console.log(`analytic ${analytic.toFixed(5)}, numeric ${numeric.toFixed(5)}`);
  expect(Math.abs(analytic - numeric)).toBeLessThan(4e-3 * Math.max(1, Math.abs(analytic)));
});

test('packed sequences compute the same as separate ones, with one thread and with two', async () => {
  const weights = Float32Array.from(ROW.targets, randomSource(3));
  async function passes(model: OrtPolicyModel, rows: readonly PackedRow[]) {
    const logprobs: number[] = [];
    for (const tensor of model.lora.tensors) tensor.gradient.fill(0);
    for (const row of rows) {
      const result = await model.forward(row, { keepForBackward: true });
      await model.backward(weights.slice(logprobs.length, logprobs.length + row.targets.length));
      logprobs.push(...result.logprobs);
    }
    return [...logprobs, ...model.lora.tensors.flatMap(({ gradient }) => [...gradient])];
  }
  const separate = SEQUENCES.map((sequence, i) => ({ ...packTrie([[sequence]]), replay: replayOf(DRAWS[i]!) }));
  const packed = await passes(tinyModel(), [ROW]);
  for (const [name, other] of [
    ['separate', await passes(tinyModel(), separate)],
    ['one thread', await passes(tinyModel(1), [ROW])],
  ] as const) {
    const worst = packed.reduce((max, value, i) => Math.max(max, Math.abs(value - other[i]!)), 0);
    console.log(`${name}: largest difference ${worst.toExponential(1)}`);
    expect(worst).toBeLessThan(1e-4);
  }
});

test('tokens that were drawn plainly are as without a replay', async () => {
  const model = tinyModel();
  const plain = await model.forward({ ...ROW, replay: null });
  const { logprobs } = await model.forward(ROW);
  const worst = DRAWS.flat().reduce((max, { temperature, kept, shifts }, i) => {
    const isPlain = temperature === 1 && kept === null && shifts === null;
    return isPlain ? Math.max(max, Math.abs(plain.logprobs[i]! - logprobs[i]!)) : max;
  }, 0);
  expect(worst).toBeLessThan(1e-5);
});

test('a temperature, a set or shifts show by themselves that a token was drawn otherwise, also the first of each', () => {
  const none = { isComplement: false, ids: new Int32Array() };
  const shifts: LogitShifts = {
    bias: [],
    repetitionPenalty: 1,
    frequencyPenalty: 1,
    presencePenalty: 0,
    promptTokenIds: new Int32Array(),
    tokenIds: new Int32Array(),
  };
  const reader = new ReplayReader({
    temperatures: Float64Array.of(1, 2, 1, 1),
    keptSet: Int32Array.of(-1, -1, 0, -1),
    keptSets: [none],
    shift: Int32Array.of(-1, -1, -1, 0),
    numGenerated: new Int32Array(4),
    shifts: [shifts],
  });
  const touched = [0, 1, 2, 3].map((start) => reader.touches({ start, end: start + 1 }));
  expect(touched).toEqual([false, true, true, true]);
});
