/** Content of an adapter's two PEFT files. */
export interface PeftContent {
  readonly config: Buffer;
  readonly weights: Buffer;
}

/** Configuration as checkpoints write it: keys of patterns are ends of module names, and paths come first. */
interface ShapeConfig {
  readonly r: number;
  readonly lora_alpha: number;
  readonly use_rslora?: boolean;
  readonly rank_pattern?: Readonly<Record<string, number>>;
  readonly alpha_pattern?: Readonly<Record<string, number>>;
}

interface TensorEntry {
  readonly dtype: string;
  readonly shape: readonly [number, number];
  readonly data_offsets: readonly [number, number];
}

const LENGTH_BYTES = 8;
const NAME = /^base_model\.model\.(.*)\.lora_([AB])\.weight$/;

/** True if modules have ranks or scales of their own: vLLM ignores `rank_pattern` and `alpha_pattern`. */
export function hasOwnShapes(config: unknown): boolean {
  if (typeof config !== 'object' || config === null) return false;
  const { use_rslora, rank_pattern, alpha_pattern } = config as Partial<ShapeConfig>;
  return use_rslora === true || [rank_pattern, alpha_pattern].some((one) => Object.keys(one ?? {}).length > 0);
}

/**
 * The same adapter with one rank and the scale 1: B is multiplied by the scale of its module, and lower ranks are
 * padded with zeros.
 *
 * @throws Error if the weights are no LoRA tensors in float32
 */
export function uniformAdapter({ config: text, weights }: PeftContent): PeftContent {
  const config = JSON.parse(text.toString()) as ShapeConfig;
  const start = LENGTH_BYTES + Number(weights.readBigUInt64LE());
  const header = JSON.parse(weights.toString('utf8', LENGTH_BYTES, start)) as Record<string, TensorEntry>;
  const { __metadata__: metadata, ...entries } = header;
  const ranks = Object.entries(entries).map(([name, { shape }]) => shape[halfOf(name) === 'A' ? 0 : 1]);
  const rank = Math.max(...ranks);
  const written: Record<string, object> = metadata === undefined ? {} : { __metadata__: metadata };
  const parts: Buffer[] = [];
  let end = 0;
  for (const [name, { dtype, shape, data_offsets: place }] of Object.entries(entries)) {
    if (dtype !== 'F32') throw new Error(`tensor ${name} is ${dtype}, expected F32`);
    const values = floatsOf(weights.subarray(start + place[0], start + place[1]));
    const half = halfOf(name);
    const scale = half === 'A' ? 1 : scaleOf(config, NAME.exec(name)![1]!);
    const dims = half === 'A' ? [rank, shape[1]] : [shape[0], rank];
    const padded = new Float32Array(dims[0]! * dims[1]!);
    for (let i = 0; i < values.length; i++)
      padded[Math.floor(i / shape[1]) * dims[1]! + (i % shape[1])] = values[i]! * scale;
    const bytes = bytesOf(padded);
    written[name] = { dtype, shape: dims, data_offsets: [end, (end += bytes.length)] };
    parts.push(bytes);
  }
  const length = Buffer.alloc(LENGTH_BYTES);
  const json = JSON.stringify(written);
  // Tensors start at a multiple of eight bytes, as in files of safetensors itself.
  const named = Buffer.from(json.padEnd(json.length + ((8 - (Buffer.byteLength(json) % 8)) % 8)));
  length.writeBigUInt64LE(BigInt(named.length));
  const uniform = { ...config, r: rank, lora_alpha: rank, use_rslora: false, rank_pattern: {}, alpha_pattern: {} };
  return {
    config: Buffer.from(`${JSON.stringify(uniform, null, 2)}\n`),
    weights: Buffer.concat([length, named, ...parts]),
  };
}

function halfOf(name: string): 'A' | 'B' {
  const half = NAME.exec(name)?.[2];
  if (half === 'A' || half === 'B') return half;
  throw new Error(`tensor ${name} is not part of a LoRA adapter`);
}

function scaleOf(config: ShapeConfig, module: string): number {
  const own = (pattern: Readonly<Record<string, number>> = {}): number | undefined =>
    Object.entries(pattern).find(([key]) => `.${module}`.endsWith(`.${key}`))?.[1];
  const rank = own(config.rank_pattern) ?? config.r;
  const alpha = own(config.alpha_pattern) ?? config.lora_alpha;
  return alpha / (config.use_rslora === true ? Math.sqrt(rank) : rank);
}

/** Copies, since the bytes of a file may be at any address. */
function floatsOf(bytes: Buffer): Float32Array {
  const floats = new Float32Array(bytes.length / 4);
  Buffer.from(floats.buffer).set(bytes);
  return floats;
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);
