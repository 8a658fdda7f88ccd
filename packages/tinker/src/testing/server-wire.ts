/** Server side of the wire: incoming passes, outgoing results. */
import { bytesOf, integersOf, protoFields, ProtoWriter, textOf } from '../wire/protobuf.ts';

/** A datum as a server reads it. */
export interface ReceivedDatum {
  readonly tokens: readonly number[];
  readonly inputs: Readonly<Record<string, readonly number[]>>;
}

export interface ReceivedPass {
  readonly modelId: string;
  readonly seqId: number;
  readonly datums: readonly ReceivedDatum[];
  readonly lossName: string;
  readonly isForwardOnly: boolean;
}

export interface PassOutput {
  readonly logprobs: readonly Float32Array[];
  readonly metrics: Readonly<Record<string, number>>;
}

export function readPassProto(bytes: Uint8Array): ReceivedPass {
  let pass: ReceivedPass = { modelId: '', seqId: 0, datums: [], lossName: '', isForwardOnly: false };
  for (const field of protoFields(bytes)) {
    if (field.field === 1) pass = { ...pass, modelId: textOf(field) };
    if (field.field === 2) pass = { ...pass, seqId: integersOf(field)[0]! };
    if (field.field === 3) pass = { ...pass, datums: [...pass.datums, readDatum(bytesOf(field))] };
    if (field.field === 4) pass = { ...pass, lossName: textOf(field) };
    if (field.field === 6) pass = { ...pass, isForwardOnly: integersOf(field)[0] === 1 };
  }
  return pass;
}

function readDatum(bytes: Uint8Array): ReceivedDatum {
  const tokens: number[] = [];
  const inputs: Record<string, number[]> = {};
  for (const field of protoFields(bytes)) {
    if (field.field === 1) {
      const [text] = protoFields(bytesOf(field));
      const [ids] = protoFields(bytesOf(text!));
      tokens.push(...new Int32Array(new Uint8Array(bytesOf(ids!)).buffer));
    }
    if (field.field === 2) {
      const [key, tensor] = protoFields(bytesOf(field));
      inputs[textOf(key!)] = readTensor(bytesOf(tensor!));
    }
  }
  return { tokens, inputs };
}

function readTensor(bytes: Uint8Array): number[] {
  const fields = new Map([...protoFields(bytes)].map((field) => [field.field, field]));
  const { buffer } = new Uint8Array(bytesOf(fields.get(1)!));
  const isFloat = integersOf(fields.get(3)!)[0] === 1;
  return isFloat ? Array.from(new Float32Array(buffer)) : Array.from(new BigInt64Array(buffer), Number);
}

interface JsonPass {
  readonly model_id: string;
  readonly seq_id: number;
  readonly forward_backward_input?: JsonInput;
  readonly forward_input?: JsonInput;
}

interface JsonInput {
  readonly loss_fn: string;
  readonly data: readonly {
    readonly model_input: { readonly chunks: readonly { readonly tokens: readonly number[] }[] };
    readonly loss_fn_inputs: Readonly<Record<string, { readonly data: readonly number[] }>>;
  }[];
}

export function readPassJson(value: unknown): ReceivedPass {
  const { model_id: modelId, seq_id: seqId, forward_backward_input: both, forward_input: forward } = value as JsonPass;
  const { data, loss_fn: lossName } = (both ?? forward)!;
  return {
    modelId,
    seqId,
    lossName,
    isForwardOnly: forward !== undefined,
    datums: data.map(({ model_input: input, loss_fn_inputs: inputs }) => ({
      tokens: input.chunks.flatMap(({ tokens }) => tokens),
      inputs: Object.fromEntries(Object.entries(inputs).map(([name, { data: values }]) => [name, values])),
    })),
  };
}

export function passOutputProto({ logprobs, metrics }: PassOutput): Uint8Array {
  const output = new ProtoWriter().text(1, 'ArrayRecord');
  const offsets = BigInt64Array.from({ length: logprobs.length + 1 }, () => 0n);
  logprobs.forEach(({ byteLength }, i) => (offsets[i + 1] = offsets[i]! + BigInt(byteLength)));
  const tensor = new ProtoWriter()
    .bytes(
      1,
      Buffer.concat(logprobs.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength))),
    )
    .bytes(2, new Uint8Array(offsets.buffer))
    .varint(3, 1);
  output.message(2, new ProtoWriter().text(1, 'x').entry(2, 'logprobs', tensor).varint(3, logprobs.length));
  for (const [name, value] of Object.entries(metrics))
    output.message(3, new ProtoWriter().text(1, name).double(2, value));
  return output.finish();
}

export function passOutputJson({ logprobs, metrics }: PassOutput): object {
  return {
    loss_fn_output_type: 'ArrayRecord',
    loss_fn_outputs: logprobs.map((values) => ({
      logprobs: { data: Array.from(values), dtype: 'float32', shape: [values.length] },
    })),
    metrics,
  };
}
