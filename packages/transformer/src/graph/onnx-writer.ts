/**
 * Writes only the messages of onnx.proto3 that a layer graph needs.
 *
 * @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3 for the field numbers
 */

export type ElementType = 'float32' | 'int64';
export type Dim = number | string;
export type AttributeValue =
  | { readonly int: number }
  | { readonly float: number }
  | { readonly ints: readonly number[] };

export interface OnnxNode {
  readonly operator: string;
  /** '' is the ONNX standard; 'com.microsoft' holds ONNX Runtime's own operators. */
  readonly domain: '' | 'com.microsoft';
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, AttributeValue>>;
}

export interface OnnxTensorType {
  readonly name: string;
  readonly type: ElementType;
  readonly shape: readonly Dim[];
}

export interface OnnxConstant {
  readonly name: string;
  readonly shape: readonly number[];
  readonly data: Float32Array | BigInt64Array;
  /** True if the data is in a separate file named like the constant. */
  readonly isBeside: boolean;
}

export interface OnnxModel {
  /** Nodes in execution order. */
  readonly nodes: readonly OnnxNode[];
  readonly inputs: readonly OnnxTensorType[];
  readonly outputs: readonly OnnxTensorType[];
  readonly constants: readonly OnnxConstant[];
}

// IR 9 and opset 18 are from 2023: all operators used here exist, and any later runtime reads them.
const IR_VERSION = 9;
const OPSET = 18;
const ELEMENT_TYPES: Readonly<Record<ElementType, number>> = { float32: 1, int64: 7 };
const ATTRIBUTE_FLOAT = 1;
const ATTRIBUTE_INT = 2;
const ATTRIBUTE_INTS = 7;
const DATA_EXTERNAL = 1;

export function encodeOnnxModel(model: OnnxModel): Uint8Array {
  const graph = new ProtobufMessage();
  for (const node of model.nodes) graph.message(1, encodeNode(node));
  graph.string(2, 'layer');
  for (const constant of model.constants) graph.message(5, encodeConstant(constant));
  for (const input of model.inputs) graph.message(11, encodeTensorType(input));
  for (const output of model.outputs) graph.message(12, encodeTensorType(output));
  const opset = (domain: string, version: number) => new ProtobufMessage().string(1, domain).integer(2, version);
  return new ProtobufMessage()
    .integer(1, IR_VERSION)
    .message(8, opset('', OPSET))
    .message(8, opset('com.microsoft', 1))
    .message(7, graph)
    .finish();
}

function encodeNode(node: OnnxNode): ProtobufMessage {
  const message = new ProtobufMessage();
  for (const input of node.inputs) message.string(1, input);
  for (const output of node.outputs) message.string(2, output);
  message.string(4, node.operator);
  for (const [name, value] of Object.entries(node.attributes)) message.message(5, encodeAttribute(name, value));
  return message.string(7, node.domain);
}

function encodeAttribute(name: string, value: AttributeValue): ProtobufMessage {
  const message = new ProtobufMessage().string(1, name);
  if ('int' in value) return message.integer(3, value.int).integer(20, ATTRIBUTE_INT);
  if ('float' in value) return message.float(2, value.float).integer(20, ATTRIBUTE_FLOAT);
  for (const item of value.ints) message.integer(8, item);
  return message.integer(20, ATTRIBUTE_INTS);
}

function encodeConstant(constant: OnnxConstant): ProtobufMessage {
  const { buffer, byteOffset, byteLength } = constant.data;
  const message = new ProtobufMessage();
  for (const dim of constant.shape) message.integer(1, dim);
  message
    .integer(2, ELEMENT_TYPES[constant.data instanceof Float32Array ? 'float32' : 'int64'])
    .string(8, constant.name);
  if (!constant.isBeside) return message.bytes(9, new Uint8Array(buffer, byteOffset, byteLength));
  const entries = { location: constant.name, offset: '0', length: String(byteLength) };
  for (const [key, value] of Object.entries(entries))
    message.message(13, new ProtobufMessage().string(1, key).string(2, value));
  return message.integer(14, DATA_EXTERNAL);
}

function encodeTensorType(tensor: OnnxTensorType): ProtobufMessage {
  const shape = new ProtobufMessage();
  for (const dim of tensor.shape) {
    shape.message(
      1,
      typeof dim === 'number' ? new ProtobufMessage().integer(1, dim) : new ProtobufMessage().string(2, dim),
    );
  }
  const type = new ProtobufMessage().integer(1, ELEMENT_TYPES[tensor.type]).message(2, shape);
  return new ProtobufMessage().string(1, tensor.name).message(2, new ProtobufMessage().message(1, type));
}

/**
 * Fields are appended in call order. Only the outermost `finish` copies bytes, because they may be all weights
 * of a layer.
 */
class ProtobufMessage {
  readonly #parts: Uint8Array[] = [];
  #length = 0;

  integer(field: number, value: number): this {
    this.#tag(field, 0);
    this.#varint(BigInt(value));
    return this;
  }

  float(field: number, value: number): this {
    this.#tag(field, 5);
    const bytes = new Uint8Array(4);
    new DataView(bytes.buffer).setFloat32(0, value, true);
    this.#add(bytes);
    return this;
  }

  bytes(field: number, value: Uint8Array): this {
    this.#tag(field, 2);
    this.#varint(BigInt(value.length));
    this.#add(value);
    return this;
  }

  string(field: number, value: string): this {
    return this.bytes(field, new TextEncoder().encode(value));
  }

  message(field: number, value: ProtobufMessage): this {
    this.#tag(field, 2);
    this.#varint(BigInt(value.#length));
    for (const part of value.#parts) this.#add(part);
    return this;
  }

  finish(): Uint8Array {
    return Buffer.concat(this.#parts, this.#length);
  }

  #add(bytes: Uint8Array): void {
    this.#parts.push(bytes);
    this.#length += bytes.length;
  }

  #tag(field: number, wireType: number): void {
    this.#varint(BigInt((field << 3) | wireType));
  }

  #varint(value: bigint): void {
    // Negative integers are written as 64-bit two's complement.
    let rest = BigInt.asUintN(64, value);
    const bytes: number[] = [];
    while (rest > 127n) {
      bytes.push(Number(rest & 127n) | 128);
      rest >>= 7n;
    }
    bytes.push(Number(rest));
    this.#add(Uint8Array.from(bytes));
  }
}
