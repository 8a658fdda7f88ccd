import { expect, test } from 'vitest';

import { passOutputProto, readPassProto } from '../testing/server-wire.ts';
import { decodePassResult, encodePass } from './pass-proto.ts';
import { integersOf, protoFields, ProtoWriter } from './protobuf.ts';

test('a pass comes through with its tokens, inputs and flags', () => {
  const datums = [
    {
      tokens: Int32Array.of(1, 2, 151_935),
      inputs: { target_tokens: Int32Array.of(2, 3, 4), weights: Float32Array.of(0, -0.5, 1.25) },
    },
    { tokens: Int32Array.of(7), inputs: { target_tokens: Int32Array.of(8), weights: Float32Array.of(1) } },
  ];
  const bytes = encodePass({ modelId: 'model_é', seqId: 300, datums, lossName: 'cross_entropy', isForwardOnly: true });
  expect(readPassProto(bytes)).toEqual({
    modelId: 'model_é',
    seqId: 300,
    lossName: 'cross_entropy',
    isForwardOnly: true,
    datums: [
      { tokens: [1, 2, 151_935], inputs: { target_tokens: [2, 3, 4], weights: [0, -0.5, 1.25] } },
      { tokens: [7], inputs: { target_tokens: [8], weights: [1] } },
    ],
  });
});

test('a result is read, even at an unaligned offset', () => {
  const logprobs = [Float32Array.of(-1, -2.5), new Float32Array(0), Float32Array.of(-3)];
  const bytes = passOutputProto({ logprobs, metrics: { 'loss:sum': 2.5, zero: 0 } });
  const received = Buffer.concat([Buffer.of(0, 0, 0), bytes]).subarray(3);
  expect(decodePassResult(received)).toEqual({ logprobs, metrics: { 'loss:sum': 2.5, zero: 0 } });
});

test('log-probabilities of several records follow each other, and those in half precision are widened', () => {
  const record = (dtype: number, data: Uint8Array, end: number) =>
    new ProtoWriter().entry(
      2,
      'logprobs',
      new ProtoWriter()
        .bytes(1, data)
        .bytes(2, new Uint8Array(BigInt64Array.of(0n, BigInt(end)).buffer))
        .varint(3, dtype),
    );
  const half = new Uint8Array(Uint16Array.of(0xbf80, 0xc000).buffer);
  const output = new ProtoWriter()
    .message(2, record(4, half, 4))
    .message(2, record(1, new Uint8Array(Float32Array.of(-3).buffer), 4));
  expect(decodePassResult(output.finish()).logprobs).toEqual([Float32Array.of(-1, -2), Float32Array.of(-3)]);
});

test.each<[string, Uint8Array]>([
  ['cut off in a varint', Uint8Array.of(0x92)],
  ['shorter than declared', Uint8Array.of(0x12, 9, 1)],
  ['of a wire type that there is not', Uint8Array.of(0x13)],
  ['a tensor with offsets outside', passWithOffsets(0n, 40n)],
  ['a tensor with decreasing offsets', passWithOffsets(4n, 0n)],
])('a message that is %s is refused, not read', (_what, bytes) => {
  expect(() => decodePassResult(bytes)).toThrow(
    expect.objectContaining({ code: 'trainer.remote_refused', retry: 'never' }),
  );
});

function passWithOffsets(...offsets: readonly bigint[]): Uint8Array {
  const tensor = new ProtoWriter()
    .bytes(1, new Uint8Array(4))
    .bytes(2, new Uint8Array(BigInt64Array.from(offsets).buffer))
    .varint(3, 1);
  return new ProtoWriter().message(2, new ProtoWriter().entry(2, 'logprobs', tensor)).finish();
}

test('whole numbers of a repeated field come packed and one by one, large ones included', () => {
  const packed = Uint8Array.of(0x22, 5, 0x80, 0x80, 0x01, 0x05, 0x00);
  expect([...protoFields(packed)].flatMap(integersOf)).toEqual([16_384, 5, 0]);
  const large = new ProtoWriter()
    .varint(4, 2 ** 40 + 3)
    .varint(4, 0)
    .finish();
  expect([...protoFields(large)].flatMap(integersOf)).toEqual([2 ** 40 + 3, 0]);
});
