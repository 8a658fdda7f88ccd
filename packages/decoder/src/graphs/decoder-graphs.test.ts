import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile, OnnxSession } from '@trainyard/native';
import { TINY_ARCHITECTURES, withoutTensor, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, afterEach, beforeEach, expect, type MockInstance, test, vi } from 'vitest';
import { DecoderGraphs } from './decoder-graphs.ts';
import { DecoderHead } from './decoder-head.ts';

const ARCHITECTURE = TINY_ARCHITECTURES.llama;
const directory = mkdtempSync(join(tmpdir(), 'decoder-graphs-'));
const path = join(directory, 'model.gguf');
writeTinyGguf(path, ARCHITECTURE);
let closed: MockInstance<OnnxSession['close']>;
beforeEach(() => {
  closed = vi.spyOn(OnnxSession.prototype, 'close');
});
afterEach(() => vi.restoreAllMocks());
afterAll(() => rmSync(directory, { recursive: true }));

test('a decoder that cannot be made closes the sessions that it has opened', () => {
  using file = GgufFile.open(path);
  const graphs = new DecoderGraphs(file, ARCHITECTURE, 2);
  graphs.close();
  const numSessions = closed.mock.calls.length;
  for (const [missing, numOpened] of [
    ['output.weight', numSessions - 1],
    [`blk.${ARCHITECTURE.numLayers - 1}.ffn_down.weight`, numSessions - 1 - 4],
    ['token_embd.weight', 0],
  ] as const) {
    closed.mockClear();
    const broken = withoutTensor(file, missing);
    expect(() => new DecoderGraphs(broken, ARCHITECTURE, 2)).toThrow(`no ${missing}`);
    expect(closed).toHaveBeenCalledTimes(numOpened);
  }
});

test('a head with a part that cannot be made closes the others', () => {
  const { vocabSize, hiddenSize } = ARCHITECTURE;
  const rowsOfPart = 100;
  // Its last part is too short.
  const vocabulary = new Float32Array((vocabSize - 1) * hiddenSize);
  const make = () =>
    new DecoderHead({ vocabulary, norm: new Float32Array(hiddenSize) }, ARCHITECTURE, 1, 4 * hiddenSize * rowsOfPart);
  expect(make).toThrow('does not match expected size');
  expect(closed).toHaveBeenCalledTimes(Math.ceil(vocabSize / rowsOfPart) - 1);
});
