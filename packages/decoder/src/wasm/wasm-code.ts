/** See the core specification of WebAssembly, chapter 5. */
export type Code = readonly number[];

export const I32 = 0x7f;
export const F32 = 0x7d;
export const V128 = 0x7b;

export const code = (...parts: Code[]): Code => parts.flat();
export const repeat = (count: number, each: (index: number) => Code): Code =>
  code(...Array.from({ length: count }, (_, index) => each(index)));
export const get = (local: number): Code => code([0x20], unsigned(local));
export const set = (local: number): Code => code([0x21], unsigned(local));
export const i32 = (value: number): Code => code([0x41], signed(value));
export const addI32: Code = [0x6a];
export const loadI32 = (offset: number): Code => code([0x28, 0x02], unsigned(offset));
export const f32 = (value: number): Code => code([0x43], bytesOf(Float32Array.of(value)));
export const addF32: Code = [0x92];
export const divideF32: Code = [0x95];
export const maxF32: Code = [0x97];
export const addF64: Code = [0xa0];
export const loadF32 = (offset: number): Code => code([0x2a, 0x02], unsigned(offset));
export const storeF32 = (offset: number): Code => code([0x38, 0x02], unsigned(offset));
export const storeF64: Code = [0x39, 0x03, 0x00];
/** Pushes the lesser of two locals, unsigned. */
export const lesser = (a: number, b: number): Code => code(get(a), get(b), get(a), get(b), [0x49, 0x1b]);
export const advance = (local: number, by: number): Code => code(get(local), i32(by), addI32, set(local));
/** Runs `body` if a local is above a constant, both unsigned. */
export const whereAbove = (local: number, value: number, body: Code): Code =>
  code(get(local), i32(value), [0x4b, 0x04, 0x40], body, [0x0b]);
/** Runs `body`, and repeats it while `local < end`, both unsigned. */
export const repeatWhileBelow = (local: number, end: number, body: Code): Code =>
  code([0x03, 0x40], body, get(local), get(end), [0x49, 0x0d, 0x00, 0x0b]);

// Four float32 lanes, or two float64.
export const load4 = (offset: number): Code => simd(0x00, 0x02, ...unsigned(offset));
export const store4 = (offset: number): Code => simd(0x0b, 0x02, ...unsigned(offset));
/** Stores one of the four lanes. */
export const storeLane4 = (lane: number, offset: number): Code => simd(0x5a, 0x02, ...unsigned(offset), lane);
/** Loads one float32 into all lanes. */
export const loadSplat4 = (offset: number): Code => simd(0x09, 0x02, ...unsigned(offset));
export const fill4 = (value: number): Code => simd(0x0c, ...bytesOf(new Float32Array(4).fill(value)));
export const fill4Integer = (value: number): Code => simd(0x0c, ...bytesOf(new Int32Array(4).fill(value)));
export const splat4 = simd(0x13);
export const lane4 = (lane: number): Code => simd(0x1f, lane);
/** Reduces the four lanes of a local with `joined`, pair by pair. */
export const acrossLanes = (local: number, joined: Code): Code => {
  const pair = (first: number): Code => code(get(local), lane4(first), get(local), lane4(first + 1), joined);
  return code(pair(0), pair(2), joined);
};
export const lane2 = (lane: number): Code => simd(0x21, lane);
export const equal4 = simd(0x41);
export const notEqual4 = simd(0x42);
/** a <= b: all bits 1 if true; false for NaN. */
export const notAbove4 = simd(0x45);
export const and = simd(0x4e);
/** The bits of a that are not in b. */
export const andNot = simd(0x4f);
export const or = simd(0x50);
/** Bits of the first vector where the mask (third operand) is 1, else of the second. */
export const select = simd(0x52);
export const add4 = simd(0xe4);
export const subtract4 = simd(0xe5);
export const multiply4 = simd(0xe6);
/** a · b + c with one rounding if the processor has the instruction (relaxed SIMD), else with two. */
export const multiplyAdd4 = simd(0x105);
/** b if a < b, else a. One instruction, unlike the maximum that propagates NaN. */
export const greaterOf4 = simd(0xeb);
/** Sixteen bytes: all lanes equal, and an unsigned right shift by the operand on the stack. */
export const fill16 = (byte: number): Code => simd(0x0c, ...Array.from({ length: 16 }, () => byte));
export const shiftRight16 = simd(0x6d);
/** Widens eight of sixteen bytes, or four of eight 16-bit integers, to twice the bits. */
export const widenBytes = {
  low: simd(0x89),
  high: simd(0x8a),
  lowSigned: simd(0x87),
  highSigned: simd(0x88),
} as const;
export const widenHalves = { low: simd(0xa7), high: simd(0xa8) } as const;
export const integersToFloats4 = simd(0xfa);
export const addInteger4 = simd(0xae);
export const shiftLeft4 = simd(0xab);
export const shiftRight4 = simd(0xad);
/** Narrows two vectors of four 32-bit integers, none above 65,535, to eight of 16 bits. */
export const narrow4 = simd(0x86);
export const add2 = simd(0xf0);
/** Lanes 0 and 1 as float64. */
export const widenLow = simd(0x5f);
/** Shuffles a vector that is on the stack twice: lanes 2 and 3 replace 0 and 1. */
export const highLanesDown = simd(0x0d, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);

export interface WasmFunction {
  name: string;
  parameters: readonly number[];
  locals: readonly [count: number, type: number][];
  code: Code;
}

/** Memory that several threads may share: a module must declare its maximum, here all 65,536 addressable pages. */
const SHARED_MEMORY: Code = [0x02, 0x03, 0x00, 0x80, 0x80, 0x04];
const OWN_MEMORY: Code = [0x02, 0x00, 0x01];

/** Module that exports the functions, none with a result, over the memory imported as `host.memory`. */
export function encodeModule(functions: readonly WasmFunction[], { isShared = false } = {}): Uint8Array<ArrayBuffer> {
  const types = functions.map(({ parameters }) => code([0x60], vector(parameters.map((type) => [type])), [0x00]));
  const exported = functions.map(({ name }, index) => code(text(name), [0x00], unsigned(index)));
  const bodies = functions.map(({ locals, code: instructions }) => {
    const content = code(vector(locals.map(([count, type]) => code(unsigned(count), [type]))), instructions, [0x0b]);
    return code(unsigned(content.length), content);
  });
  return Uint8Array.from(
    code(
      [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
      section(1, vector(types)),
      section(2, vector([code(text('host'), text('memory'), isShared ? SHARED_MEMORY : OWN_MEMORY)])),
      section(3, vector(functions.map((_, index) => unsigned(index)))),
      section(7, vector(exported)),
      section(10, vector(bodies)),
    ),
  );
}

function section(id: number, content: Code): Code {
  return code([id], unsigned(content.length), content);
}

function vector(items: readonly Code[]): Code {
  return code(unsigned(items.length), ...items);
}

function text(value: string): Code {
  return vector([...Buffer.from(value)].map((byte) => [byte]));
}

function simd(opcode: number, ...immediates: number[]): Code {
  return code([0xfd], unsigned(opcode), immediates);
}

/** LEB128. */
function unsigned(value: number): Code {
  return value < 128 ? [value] : [(value & 127) | 128, ...unsigned(value >>> 7)];
}

function signed(value: number): Code {
  return value >= -64 && value < 64 ? [value & 127] : [(value & 127) | 128, ...signed(value >> 7)];
}

function bytesOf(values: Float32Array | Int32Array): Code {
  return [...new Uint8Array(values.buffer)];
}
