import { expect, test } from 'vitest';
import { additionModel, field, message } from '../testing/addition-model.ts';
import { BorrowedOnnxSession, OnnxSession } from './onnx-session.ts';

const open = () => new OnnxSession(additionModel(), { numThreads: 1, inputNames: ['a', 'b'], outputNames: ['sum'] });
const vector = (...values: number[]) => ({ data: Float32Array.from(values), dims: [values.length] });

test('outputs are written in place, views into larger and shared memory included', () => {
  const session = open();
  const memory = new Float32Array(new SharedArrayBuffer(4 * 6)).fill(-1);
  session.run([vector(1, 2, 3), vector(10, 20, 30)], [{ data: memory.subarray(2, 5), dims: [3] }]);
  expect(Array.from(memory)).toEqual([-1, -1, 11, 22, 33, -1]);
  session.close();
});

test('a session is borrowed by its place, which threads can be sent, and outlives its borrowers', () => {
  const session = open();
  const place = structuredClone(session.place);
  for (const one of [new BorrowedOnnxSession(place), new BorrowedOnnxSession(place), session]) {
    const sum = vector(0, 0);
    one.run([vector(1, 2), vector(3, 4)], [sum]);
    expect(Array.from(sum.data)).toEqual([4, 6]);
  }
  session.close();
});

test('a run takes no memory of JavaScript', () => {
  const session = open();
  const large = () => ({ data: new Float32Array(1_000_000), dims: [1_000_000] });
  const [a, b, sum] = [large(), large(), large()];
  session.run([a, b], [sum]);
  const before = process.memoryUsage().arrayBuffers;
  for (let run = 0; run < 20; run++) session.run([a, b], [sum]);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(4_000_000);
  session.close();
});

test('a refusal of ONNX Runtime is an error with its message, and the session continues', () => {
  const session = open();
  expect(() => session.run([vector(1, 2, 3), vector(1, 2)], [vector(0, 0, 0)])).toThrow(/^ONNX Runtime: .*Add/);
  for (const length of [1, 3]) {
    const wrong = { data: new Float32Array(length), dims: [2] };
    expect(() => session.run([vector(1, 2), vector(1, 2)], [wrong])).toThrow('a tensor of [2] needs as many elements');
  }
  const sum = vector(0, 0);
  session.run([vector(1, 2), vector(3, 4)], [sum]);
  expect(Array.from(sum.data)).toEqual([4, 6]);
  session.close();
  expect(() => session.run([vector(1), vector(1)], [vector(0)])).toThrow('this session is closed');
});

test('weights are read from memory while the session is made, and not later', () => {
  const entry = (key: string, value: string) => field(13, message(field(1, key), field(2, value)));
  const length = 20_000;
  const place = [...entry('location', 'b'), ...entry('offset', '0'), ...entry('length', String(4 * length))];
  const constant = message(field(1, length), field(2, 1), field(8, 'b'), place, field(14, 1));
  const model = additionModel('Add', constant);
  const options = { numThreads: 1, inputNames: ['a'], outputNames: ['sum'] };
  const memory = Float32Array.from({ length: length + 7 }, (_, i) => i);
  const session = new OnnxSession(model, { ...options, weightFiles: new Map([['b', memory.subarray(7)]]) });
  memory.fill(NaN);
  const a = { data: new Float32Array(length).fill(0.5), dims: [length] };
  const sum = { data: new Float32Array(length), dims: [length] };
  session.run([a], [sum]);
  expect(sum.data).toEqual(Float32Array.from({ length }, (_, i) => i + 7.5));
  session.close();
  expect(() => new OnnxSession(model, options)).toThrow(/^ONNX Runtime: /);
  const short = new Map([['b', memory.subarray(8)]]);
  expect(() => new OnnxSession(model, { ...options, weightFiles: short })).toThrow(/^ONNX Runtime: /);
});

test('a model that cannot be loaded gives the reason', () => {
  const options = { numThreads: 1, inputNames: ['a', 'b'], outputNames: ['sum'] };
  expect(() => new OnnxSession(Uint8Array.of(1, 2, 3), options)).toThrow(/^ONNX Runtime: /);
  expect(() => new OnnxSession(additionModel('NoSuchOperator'), options)).toThrow('NoSuchOperator');
});
