/** One field of a protocol buffer: a number, or bytes. */
export function field(number: number, value: number | Uint8Array | string): number[] {
  if (typeof value === 'number') return [...varint(number * 8), ...varint(value)];
  const bytes = typeof value === 'string' ? new TextEncoder().encode(value) : value;
  return [...varint(number * 8 + 2), ...varint(bytes.length), ...bytes];
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value % 128) + 128, ...varint(Math.floor(value / 128))];
}

export const message = (...fields: number[][]) => Uint8Array.from(fields.flat());

/**
 * Model sum [N] = a [N] + b [N] in ONNX (onnx.proto).
 *
 * @param operator instead of the addition
 * @param constant fields of b, if it is part of the model
 */
export function additionModel(operator = 'Add', constant?: Uint8Array): Uint8Array {
  const float32 = 1;
  const shape = message(field(1, message(field(2, 'N'))));
  const type = message(field(1, message(field(1, float32), field(2, shape))));
  const vector = (name: string) => message(field(1, name), field(2, type));
  const node = message(field(1, 'a'), field(1, 'b'), field(2, 'sum'), field(4, operator));
  const graph = message(
    field(1, node),
    field(2, 'addition'),
    constant === undefined ? [] : field(5, constant),
    field(11, vector('a')),
    constant === undefined ? field(11, vector('b')) : [],
    field(12, vector('sum')),
  );
  return message(field(1, 8), field(7, graph), field(8, message(field(2, 17))));
}
