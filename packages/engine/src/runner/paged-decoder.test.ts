/** The runner under unusual batches, histories and files, on tiny models. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeGguf } from '@trainyard/native';
import type { GgufTensorData } from '@trainyard/native';
import {
  architectureMetadata,
  randomSource,
  TINY_ARCHITECTURES,
  tinyTensors,
  writeAdapter,
} from '@trainyard/transformer/testing';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { StepBatch } from './model-runner.ts';
import { type DecoderAdapter, PagedDecoder, type PagedDecoderOptions } from '@trainyard/decoder';

const architecture = TINY_ARCHITECTURES.llama;
const directory = mkdtempSync(join(tmpdir(), 'exact-runner-'));
const modelPath = join(directory, 'model.gguf');
const metadata = architectureMetadata(architecture);
beforeAll(() => writeGguf(modelPath, metadata, tinyTensors(architecture)));
afterAll(() => rmSync(directory, { recursive: true }));

const opened: PagedDecoder[] = [];
afterEach(() => {
  for (const runner of opened.splice(0)) runner.close();
});
function open(options: Partial<PagedDecoderOptions> = {}, path = modelPath): PagedDecoder {
  const runner = PagedDecoder.open(path, {
    capacityTokens: 512,
    maxSequences: 8,
    batchTokens: 64,
    numThreads: 1,
    ...options,
  });
  opened.push(runner);
  return runner;
}

/** Adapter with values of each half by function; default: small random ones. */
function adapterOf(
  runner: PagedDecoder,
  name: string,
  values: Partial<Record<'a' | 'b', number>> = {},
): DecoderAdapter {
  const random = randomSource(name.length);
  const path = join(directory, `${name}.gguf`);
  writeAdapter(path, architecture, { rank: 2, alpha: 2 }, (half) => values[half] ?? 0.3 * random());
  return runner.loadAdapter(path);
}

interface Piece {
  readonly sequence: number;
  readonly length: number;
  readonly from?: number;
  readonly adapter?: DecoderAdapter | null;
}

/** Logits after each piece. Tokens follow from their positions. */
function compute(runner: PagedDecoder, pieces: readonly Piece[]): Float32Array[] {
  const batch = new StepBatch(runner.batchTokens);
  for (const { sequence, length, from = 0, adapter = null } of pieces)
    for (let i = from; i < from + length; i++)
      batch.add({ token: (37 * i + 5) % 256, position: i, sequence, wantsLogits: i === from + length - 1 }, adapter);
  const rows = runner.run(batch);
  return pieces.map((_, index) => rows.row(index).slice());
}
const isFinite = (row: Float32Array | undefined) => row?.every(Number.isFinite) === true;

describe('a sequence with numbers that overflow', () => {
  // Finite, as a diverged training may leave them; products with them overflow.
  const overflowing = (runner: PagedDecoder) => adapterOf(runner, 'overflowing', { a: 1e30, b: 1e30 });

  test('changes no other row of its batch, with an adapter or without', () => {
    const runner = open();
    const [bad, good] = [overflowing(runner), adapterOf(runner, 'good')];
    const pieces = [
      { sequence: 0, length: 5 },
      { sequence: 1, length: 5, adapter: good },
    ];
    const expected = compute(runner, pieces);
    for (const others of [pieces, pieces.toReversed(), pieces.slice(0, 1), pieces.slice(1)]) {
      for (const isFirst of [true, false]) {
        for (let sequence = 0; sequence < 3; sequence++) runner.forget(sequence, 0);
        const one = { sequence: 2, length: 3, adapter: bad };
        const all = isFirst ? [one, ...others] : [...others, one];
        const rows = compute(runner, all);
        expect(isFinite(rows[all.indexOf(one)])).toBe(false);
        for (const piece of others) expect(rows[all.indexOf(piece)]).toEqual(expected[pieces.indexOf(piece)]);
      }
    }
  });

  test('leaves no trace in the pages that it gives back', () => {
    const runner = open();
    const [expected] = compute(runner, [{ sequence: 0, length: 5 }]);
    runner.forget(0, 0);
    compute(runner, [{ sequence: 0, length: 40, adapter: overflowing(runner) }]);
    runner.forget(0, 0);
    expect(compute(runner, [{ sequence: 0, length: 5 }])[0]).toEqual(expected);
    // Nor in a page that holds a copy of a shared one.
    runner.share(0, 1, 4);
    expect(compute(runner, [{ sequence: 1, length: 1, from: 4 }])[0]).toEqual(expected);
  });
});

test('an adapter with values that are no numbers is refused', () => {
  const runner = open();
  for (const [half, value] of [
    ['a', NaN],
    ['b', Infinity],
  ] as const)
    expect(() => adapterOf(runner, 'refused', { [half]: value })).toThrow(
      `blk.0.attn_q.weight.lora_${half} holds ${value}: adapter values must be finite`,
    );
});

test('batches of one token go with an adapter, too', () => {
  const runner = open({ batchTokens: 1 });
  const wide = open();
  const steps = (one: PagedDecoder) => {
    const adapter = adapterOf(one, 'good');
    return [0, 1, 2, 3].map((from) => compute(one, [{ sequence: 0, length: 1, from, adapter }])[0]);
  };
  expect(steps(runner)).toEqual(steps(wide));
});

// Sizes that are no multiple of the kernels' vectors.
test.each([
  [34, 64],
  [32, 30],
  [33, 65],
])(
  'a model of %i with a feed-forward size of %i: adapters change only their own rows',
  (hiddenSize, feedForwardSize) => {
    const odd = { ...architecture, hiddenSize, feedForwardSize };
    const path = join(directory, `odd.${hiddenSize}.${feedForwardSize}.gguf`);
    writeGguf(path, architectureMetadata(odd), tinyTensors(odd));
    const runner = open({ numThreads: 2 }, path);
    const random = randomSource(3);
    const load = (name: string, scaleOfB: number) =>
      runner.loadAdapter(
        writeAdapter(
          `${path}.${name}`,
          odd,
          { rank: 3, alpha: 3 },
          (half) => (half === 'b' ? scaleOfB : 0.3) * random(),
        ),
      );
    const [adapter, idle] = [load('adapter', 0.3), load('idle', 0)];
    const alone = (of: DecoderAdapter | null) => {
      runner.forget(0, 0);
      return compute(runner, [{ sequence: 0, length: 6, adapter: of }])[0];
    };
    const [plain, adapted] = [alone(null), alone(adapter)];
    expect(adapted).not.toEqual(plain);
    // A second factor of 0 adds nothing.
    expect(alone(idle)).toEqual(plain);
    for (const of of [
      [null, adapter, adapter, idle],
      [adapter, idle, null, adapter],
    ]) {
      for (let sequence = 0; sequence < 4; sequence++) runner.forget(sequence, 0);
      const rows = compute(
        runner,
        of.map((one, sequence) => ({ sequence, length: 6, adapter: one })),
      );
      expect(rows).toEqual(of.map((one) => (one === adapter ? adapted : plain)));
    }
  },
);

test('the threads that share the columns of products change no bit of a row, with an adapter or without', () => {
  // Widths that several threads share, no two of three parts equal.
  const wide = { ...architecture, hiddenSize: 160, headSize: 40, feedForwardSize: 388 };
  const path = join(directory, 'wide.gguf');
  writeGguf(path, architectureMetadata(wide), tinyTensors(wide));
  const adapterPath = writeAdapter(`${path}.adapter`, wide, { rank: 2, alpha: 2 }, randomSource(4));
  const [alone, ...shared] = [1, 2, 3].map((numThreads) => {
    const runner = open({ numThreads }, path);
    const adapter = runner.loadAdapter(adapterPath);
    const pieces = [null, adapter, null].map((one, sequence) => ({ sequence, length: 20 + sequence, adapter: one }));
    const next = pieces.map(({ length, ...piece }) => ({ ...piece, from: length, length: 1 }));
    return [...compute(runner, pieces), ...compute(runner, next), ...compute(runner, [{ sequence: 4, length: 9 }])];
  });
  for (const rows of shared) expect(rows).toEqual(alone);
});

test('logits do not depend on the other rows with logits, with an adapter or without, and a row may have none', () => {
  const runner = open();
  const adapters = [null, adapterOf(runner, 'one')];
  const rowsOf = (wants: (row: number) => boolean): (Float32Array | null)[] => {
    const batch = new StepBatch(runner.batchTokens);
    for (let row = 0; row < 40; row++)
      batch.add(
        { token: (37 * row + 5) % 256, position: row >> 1, sequence: row % 2, wantsLogits: wants(row) },
        adapters[row % 2]!,
      );
    const logits = runner.run(batch);
    let next = 0;
    const found = Array.from({ length: 40 }, (_, row): Float32Array | null =>
      wants(row) ? logits.row(next++).slice() : null,
    );
    found.push(
      ...compute(
        runner,
        [0, 1].map((sequence) => ({ sequence, length: 1, from: 20, adapter: adapters[sequence]! })),
      ),
    );
    for (const sequence of [0, 1]) runner.forget(sequence, 0);
    return found;
  };
  const all = rowsOf(() => true);
  expect(all.every((row) => isFinite(row ?? undefined))).toBe(true);
  for (const wants of [
    () => false,
    (row: number) => row === 7,
    (row: number) => row % 3 === 1,
    (row: number) => row > 36,
  ])
    expect(rowsOf(wants)).toEqual(all.map((row, index) => (index >= 40 || wants(index) ? row : null)));
});

test('adapters that do not fit together take turns, and one that never fits is refused', () => {
  const wide = open();
  const { sizeBytes } = adapterOf(wide, 'one');
  const narrow = open({ adapterBytes: 2 * sizeBytes + 64 });
  const pieces = (runner: PagedDecoder) =>
    ['one', 'other', null, 'third', 'one'].map((name, sequence) => ({
      sequence,
      length: 3 + sequence,
      adapter: name === null ? null : adapterOf(runner, name),
    }));
  const steps = (runner: PagedDecoder) => {
    const all = pieces(runner);
    const first = compute(runner, all);
    const next = all.map(({ sequence, length, adapter }) => ({ sequence, from: length, length: 1, adapter }));
    return [...first, ...compute(runner, next), ...compute(runner, [{ ...next[3]!, from: next[3]!.from + 1 }])];
  };
  expect(steps(narrow)).toEqual(steps(wide));
  const none = open({ adapterBytes: 64 });
  expect(() => adapterOf(none, 'one')).toThrow(/^the adapter needs \d+ bytes, the limit is \d+$/);
});

test('the reported number of tokens fits, though every sequence branches off within a page', () => {
  const runner = open({ capacityTokens: 64, maxSequences: 16 });
  const [expected] = compute(runner, [{ sequence: 0, length: 33 }]);
  runner.forget(0, 31);
  for (let sequence = 1; sequence < 16; sequence++) runner.share(0, sequence, 31);
  // 31 tokens shared by all, and 2 more each.
  const branches = Array.from({ length: 16 }, (_, sequence) => ({ sequence, length: 2, from: 31 }));
  for (const row of compute(runner, branches)) expect(row).toEqual(expected);
});

test('the kernels in C give the logits of those in WebAssembly, to the bit', () => {
  const wide = { ...architecture, headSize: 16 };
  const path = join(directory, 'wide.gguf');
  writeGguf(path, architectureMetadata(wide), tinyTensors(wide));
  const [native, twin] = [true, false].map((usesNativeKernels) => open({ usesNativeKernels }, path));
  console.log(`kernels: ${native!.instructions}, ${twin!.instructions}`);
  expect(twin!.instructions).toBe(null);
  const pieces = [40, 3, 17].map((length, sequence) => ({ sequence, length }));
  expect(compute(native!, pieces)).toEqual(compute(twin!, pieces));
});

describe('a model file with tensors that do not match its sizes', () => {
  const fileWith = (change: (tensor: GgufTensorData) => GgufTensorData | null): string => {
    const path = join(directory, 'malformed.gguf');
    const tensors = tinyTensors(architecture).flatMap((tensor) => change(tensor) ?? []);
    writeGguf(path, metadata, tensors);
    return path;
  };
  const { hiddenSize, vocabSize, feedForwardSize } = architecture;

  test.each([
    ['blk.1.attn_q.weight', [hiddenSize, 16], [hiddenSize, 32]],
    ['blk.0.ffn_down.weight', [hiddenSize, feedForwardSize], [feedForwardSize, hiddenSize]],
    ['blk.0.attn_norm.weight', [hiddenSize - 1], [hiddenSize]],
    ['output_norm.weight', [2 * hiddenSize], [hiddenSize]],
    ['output.weight', [hiddenSize, vocabSize - 1], [hiddenSize, vocabSize]],
    ['token_embd.weight', [hiddenSize / 2, vocabSize], [hiddenSize, vocabSize]],
  ])('%s of [%s] is refused: [%s] is needed', (name, dims, needed) => {
    const length = dims.reduce((product, dim) => product * dim, 1);
    const path = fileWith((tensor) => (tensor.name === name ? { name, dims, data: new Float32Array(length) } : tensor));
    expect(() => open({}, path)).toThrow(`${name} is [${dims.join()}], the model needs [${needed.join()}]`);
  });

  test('one that is missing is named', () => {
    const path = fileWith((tensor) => (tensor.name === 'blk.1.ffn_up.weight' ? null : tensor));
    expect(() => open({}, path)).toThrow('the model file has no blk.1.ffn_up.weight');
  });
});
