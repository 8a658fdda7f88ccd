/**
 * Protobuf's wire format, only the parts of the Tinker protocol: varints, doubles and length-delimited fields.
 *
 * @see https://protobuf.dev/programming-guides/encoding
 */
import { wireFault } from './wire-fault.ts';

const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;
const FIXED32 = 5;

export class ProtoWriter {
  readonly #parts: Uint8Array[] = [];

  /** @param value whole, from 0 to 2⁵³ - 1 */
  varint(field: number, value: number): this {
    return this.#add(varintBytes(tagOf(field, VARINT)), varintBytes(value));
  }

  double(field: number, value: number): this {
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setFloat64(0, value, true);
    return this.#add(varintBytes(tagOf(field, FIXED64)), bytes);
  }

  bytes(field: number, value: Uint8Array): this {
    return this.#add(varintBytes(tagOf(field, LENGTH)), varintBytes(value.length), value);
  }

  text(field: number, value: string): this {
    return this.bytes(field, Buffer.from(value, 'utf8'));
  }

  message(field: number, value: ProtoWriter): this {
    return this.bytes(field, value.finish());
  }

  /** An entry of a map with text keys. */
  entry(field: number, key: string, value: ProtoWriter): this {
    return this.message(field, new ProtoWriter().text(1, key).message(2, value));
  }

  finish(): Uint8Array {
    return Buffer.concat(this.#parts);
  }

  #add(...parts: readonly Uint8Array[]): this {
    this.#parts.push(...parts);
    return this;
  }
}

/** A varint is a number, everything else bytes. */
export interface ProtoField {
  readonly field: number;
  readonly value: number | Uint8Array;
}

/** @throws {TrainerError} `trainer.remote_refused` for bytes that are not a message */
export function* protoFields(bytes: Uint8Array): Generator<ProtoField> {
  let at = 0;
  const varint = (): number => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined) break;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return Number(BigInt.asIntN(64, value));
    }
    throw wireFault('a varint of a protobuf message is truncated');
  };
  const take = (length: number): Uint8Array => {
    if (length < 0 || at + length > bytes.length) throw wireFault('a protobuf message is truncated');
    at += length;
    return bytes.subarray(at - length, at);
  };
  while (at < bytes.length) {
    const tag = varint();
    const field = Math.floor(tag / 8);
    switch (tag % 8) {
      case VARINT:
        yield { field, value: varint() };
        break;
      case FIXED64:
        yield { field, value: take(8) };
        break;
      case LENGTH:
        yield { field, value: take(varint()) };
        break;
      case FIXED32:
        yield { field, value: take(4) };
        break;
      default:
        throw wireFault(`a protobuf message has a field of the unsupported wire type ${tag % 8}`);
    }
  }
}

/** Requires a length-delimited field, or one of fixed size. */
export function bytesOf({ field, value }: ProtoField): Uint8Array {
  if (typeof value !== 'number') return value;
  throw wireFault(`field ${field} of a protobuf message is an unexpected number`);
}

export function textOf(field: ProtoField): string {
  return Buffer.from(bytesOf(field)).toString('utf8');
}

export function doubleOf(field: ProtoField): number {
  const bytes = bytesOf(field);
  if (bytes.length !== 8) throw wireFault(`field ${field.field} of a protobuf message is not a double`);
  return new DataView(bytes.buffer, bytes.byteOffset, 8).getFloat64(0, true);
}

/** Reads packed numbers, or one. */
export function integersOf({ value }: ProtoField): number[] {
  if (typeof value === 'number') return [value];
  // Packed varints have no tags: each is read as a field after an added tag.
  const integers: number[] = [];
  for (let at = 0; at < value.length;) {
    const end = value.findIndex((byte, index) => index >= at && byte < 0x80) + 1;
    if (end === 0) throw wireFault('a packed field of a protobuf message is truncated');
    const [first] = protoFields(Buffer.concat([varintBytes(tagOf(1, VARINT)), value.subarray(at, end)]));
    integers.push(first!.value as number);
    at = end;
  }
  return integers;
}

function tagOf(field: number, wireType: number): number {
  return field * 8 + wireType;
}

function varintBytes(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  do {
    const low = rest % 128;
    rest = Math.floor(rest / 128);
    bytes.push(rest > 0 ? low + 128 : low);
  } while (rest > 0);
  return Uint8Array.from(bytes);
}
