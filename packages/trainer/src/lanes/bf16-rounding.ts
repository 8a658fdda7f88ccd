/** Ties to even, like oneDNN. @param into may be the same array */
export function roundToBf16(values: Float32Array, into: Float32Array): Float32Array {
  into.set(values);
  const bits = new Uint32Array(into.buffer, into.byteOffset, into.length);
  for (let i = 0; i < bits.length; i++) {
    const value = bits[i]!;
    bits[i] = (value + 0x7fff + ((value >>> 16) & 1)) & 0xffff_0000;
  }
  return into;
}
