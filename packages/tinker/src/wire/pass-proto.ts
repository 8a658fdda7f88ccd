/** Passes in protobuf: the package `tinker_public` of the SDK from 0.25 on. */
import type { Datum, LossInput, PassRequest, PassResult } from './datum.ts';
import { bytesOf, doubleOf, integersOf, protoFields, ProtoWriter, textOf } from './protobuf.ts';
import { wireFault } from './wire-fault.ts';

const FLOAT32 = 1;
const INT64 = 2;
const INT32 = 3;
const BFLOAT16 = 4;

/** A `ForwardBackwardRequest`. */
export function encodePass({ modelId, seqId, datums, lossName, isForwardOnly }: PassRequest): Uint8Array {
  const request = new ProtoWriter().text(1, modelId).varint(2, seqId);
  for (const datum of datums) request.message(3, datumMessage(datum));
  request.text(4, lossName);
  if (isForwardOnly) request.varint(6, 1);
  return request.finish();
}

function datumMessage({ tokens, inputs }: Datum): ProtoWriter {
  const text = new ProtoWriter().bytes(1, bytesIn(tokens));
  const datum = new ProtoWriter().message(1, new ProtoWriter().message(1, text));
  for (const [name, input] of Object.entries(inputs)) datum.entry(2, name, tensorMessage(input));
  return datum;
}

function tensorMessage(input: LossInput): ProtoWriter {
  const isFloat = input instanceof Float32Array;
  const dense = isFloat ? bytesIn(input) : bytesIn(BigInt64Array.from(input, BigInt));
  return new ProtoWriter()
    .bytes(1, dense)
    .varint(3, isFloat ? FLOAT32 : INT64)
    .varint(4, input.length);
}

/** @throws {TrainerError} `trainer.remote_refused` unless it is a `ForwardBackwardOutput` */
export function decodePassResult(bytes: Uint8Array): PassResult {
  const logprobs: Float32Array[] = [];
  const metrics: Record<string, number> = {};
  for (const field of protoFields(bytes)) {
    if (field.field === 2) logprobs.push(...arrayRecord(bytesOf(field)));
    if (field.field === 3) {
      const [name, value] = mapEntry(bytesOf(field));
      metrics[name] = value === null ? 0 : doubleOf(value);
    }
  }
  return { logprobs, metrics };
}

function arrayRecord(bytes: Uint8Array): Float32Array[] {
  for (const field of protoFields(bytes)) {
    if (field.field !== 2) continue;
    const [name, value] = mapEntry(bytesOf(field));
    if (name === 'logprobs' && value !== null) return batchedTensor(bytesOf(value));
  }
  return [];
}

function batchedTensor(bytes: Uint8Array): Float32Array[] {
  let data: Uint8Array = new Uint8Array(0);
  let offsets: readonly number[] = [];
  let dtype = 0;
  let trailing = 1;
  for (const field of protoFields(bytes)) {
    if (field.field === 1) data = bytesOf(field);
    if (field.field === 2) offsets = Array.from(new BigInt64Array(aligned(bytesOf(field))), Number);
    if (field.field === 3) [dtype = 0] = integersOf(field);
    if (field.field === 4) trailing = integersOf(field).reduce((product, size) => product * size, trailing);
  }
  if (trailing !== 1) throw wireFault(`log-probabilities have ${trailing} values per row, expected 1`);
  return offsets.slice(1).map((end, index) => {
    const start = offsets[index]!;
    if (start < 0 || end < start || end > data.length) throw wireFault('a tensor has invalid offsets');
    return floatsOf(data.subarray(start, end), dtype);
  });
}

function floatsOf(bytes: Uint8Array, dtype: number): Float32Array {
  switch (dtype) {
    case FLOAT32:
      return new Float32Array(aligned(bytes));
    case INT64:
      return Float32Array.from(new BigInt64Array(aligned(bytes)), Number);
    case INT32:
      return Float32Array.from(new Int32Array(aligned(bytes)));
    case BFLOAT16:
      return new Float32Array(Uint32Array.from(new Uint16Array(aligned(bytes)), (bits) => bits << 16).buffer);
    default:
      throw wireFault(`a tensor has the unsupported type ${dtype}`);
  }
}

function mapEntry(bytes: Uint8Array) {
  let name = '';
  let value = null;
  for (const field of protoFields(bytes)) {
    if (field.field === 1) name = textOf(field);
    if (field.field === 2) value = field;
  }
  return [name, value] as const;
}

/** All supported machines are little-endian. */
function bytesIn({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Copies: parts of a message may be unaligned, and typed arrays may not. */
function aligned(bytes: Uint8Array): ArrayBuffer {
  return new Uint8Array(bytes).buffer;
}
