/** Values of a block along a row, which share a scale, as in ggml's blocks of 32. */
export const BLOCK_VALUES = 32;
/** Weight rows that are multiplied together. */
export const GROUP_ROWS = 8;

/**
 * Bytes of a group's block: 8 weight rows of 32 values. The order is that of `enum format` of the kernels in C.
 *
 * - `affine4`: 8 scales, 8 offsets, each float32; then 8 vectors of 4 values each of 8 rows, the first two values in
 *   the low halves of bytes and the other two in the high ones. Weight = q · scale + offset
 * - `scaled8`: 8 scales, then values with a sign, of 8 rows each. Weight = q · scale
 * - `affine8`: 8 scales, 8 offsets, then values. Weight = q · scale + offset
 * - `halfScaled8`: 8 scales of the first sixteen values, 8 of the others, then values. Weight = q · scale
 * - `bf16`, `f16`, `f32`: values of 8 rows each
 */
export const GROUP_BLOCK_BYTES = {
  affine4: 192,
  scaled8: 288,
  affine8: 320,
  halfScaled8: 320,
  bf16: 512,
  f16: 512,
  f32: 1024,
} as const;
export type WeightFormat = keyof typeof GROUP_BLOCK_BYTES;
export const FORMATS = Object.keys(GROUP_BLOCK_BYTES) as WeightFormat[];

/** Single values in the form of the type of the same name. */
export const PLAIN_FORMATS = ['bf16', 'f16', 'f32'] as const satisfies readonly WeightFormat[];
export type PlainFormat = (typeof PLAIN_FORMATS)[number];

/** Formats of the kernels in WebAssembly. */
export const WASM_FORMATS = ['affine4', 'scaled8'] as const satisfies readonly WeightFormat[];
export type WasmFormat = (typeof WASM_FORMATS)[number];

/** Matrices that kernels compute. */
export interface KernelLimits {
  readonly formats: readonly WeightFormat[];
  /** Parts of a matrix have a multiple of as many rows. */
  readonly rowStep: number;
}

export const WASM_LIMITS: KernelLimits = { formats: WASM_FORMATS, rowStep: GROUP_ROWS };
export const NATIVE_LIMITS: KernelLimits = { formats: FORMATS, rowStep: 1 };
