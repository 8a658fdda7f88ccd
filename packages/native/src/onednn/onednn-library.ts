import type { KoffiFunc } from 'koffi';
import { NativeError } from '../binding/errors.ts';
import { koffi } from '../binding/koffi.ts';

/** An address; 0n = none. */
export type Address = bigint;
type OutAddress = BigUint64Array;

/** Constants of dnnl_types.h, the same in every 3.x. */
export const DATA_TYPE = { bf16: 2, f32: 3 } as const;
const ANY_LAYOUT = 1;
export const ARGUMENT = { from: 1, to: 17, weights: 33 } as const;
/** Argument of a post-operation's second operand, by index. */
export const postOperand = (place: number): number => (32_768 * (place + 1)) | 2;
export const ALGORITHM = { swish: 44, add: 0x1fff0, multiply: 0x1fff1 } as const;
const WEIGHTS_LAYOUT = 131;
const CPU = 1;
const IN_ORDER = 1;
const RUNTIME = { sequential: 1, openMp: 2 } as const;
/** Bits of AVX-512 with bf16 products; AMX has them too. */
const ISA_BF16 = 0xe7;
const MAJOR_VERSION = 3;
/** Oldest tested version. */
const MIN_MINOR_VERSION = 2;

const REMEDY = '`npm run bf16` fetches one, and TRAINYARD_ONEDNN names another';

function bindOneDnn(path: string) {
  const ffi = koffi();
  // Read once, when the threading library is loaded: spinning threads would take cores from the next computation.
  process.env['OMP_WAIT_POLICY'] ??= 'passive';
  const library = ffi.load(path);
  const bind = <F extends (...args: never[]) => unknown>(name: string, result: string, parameters: string[]) =>
    library.func(name, result, parameters) as KoffiFunc<F>;
  const address = 'uintptr_t';
  return {
    // Kept referenced, together with the functions bound from it.
    library,
    version: bind<() => Address>('dnnl_version', 'void *', []),
    effectiveIsa: bind<() => number>('dnnl_get_effective_cpu_isa', 'int', []),
    engineCreate: bind<(out: OutAddress, kind: number, index: number) => number>('dnnl_engine_create', 'int', [
      'void *',
      'int',
      'size_t',
    ]),
    streamCreate: bind<(out: OutAddress, engine: Address, flags: number) => number>('dnnl_stream_create', 'int', [
      'void *',
      address,
      'uint32',
    ]),
    describeWithStrides: bind<
      (out: OutAddress, numDims: number, dims: BigInt64Array, type: number, strides: BigInt64Array) => number
    >('dnnl_memory_desc_create_with_strides', 'int', ['void *', 'int', 'void *', 'int', 'void *']),
    describeWithTag: bind<(out: OutAddress, numDims: number, dims: BigInt64Array, type: number, tag: number) => number>(
      'dnnl_memory_desc_create_with_tag',
      'int',
      ['void *', 'int', 'void *', 'int', 'int'],
    ),
    descriptionClone: bind<(out: OutAddress, description: Address) => number>('dnnl_memory_desc_clone', 'int', [
      'void *',
      address,
    ]),
    descriptionSize: bind<(description: Address) => bigint | number>('dnnl_memory_desc_get_size', 'size_t', [address]),
    descriptionDestroy: bind<(description: Address) => number>('dnnl_memory_desc_destroy', 'int', [address]),
    matmulCreate: bind<
      (
        out: OutAddress,
        engine: Address,
        from: Address,
        weights: Address,
        bias: Address,
        to: Address,
        attributes: Address,
      ) => number
    >('dnnl_matmul_primitive_desc_create', 'int', ['void *', address, address, address, address, address, address]),
    reorderCreate: bind<
      (
        out: OutAddress,
        from: Address,
        fromEngine: Address,
        to: Address,
        toEngine: Address,
        attributes: Address,
      ) => number
    >('dnnl_reorder_primitive_desc_create', 'int', ['void *', address, address, address, address, address]),
    primitiveCreate: bind<(out: OutAddress, description: Address) => number>('dnnl_primitive_create', 'int', [
      'void *',
      address,
    ]),
    primitiveDestroy: bind<(primitive: Address) => number>('dnnl_primitive_destroy', 'int', [address]),
    queryLayout: bind<(description: Address, what: number, index: number) => Address>(
      'dnnl_primitive_desc_query_md',
      address,
      [address, 'int', 'int'],
    ),
    primitiveDescriptionDestroy: bind<(description: Address) => number>('dnnl_primitive_desc_destroy', 'int', [
      address,
    ]),
    attributesCreate: bind<(out: OutAddress) => number>('dnnl_primitive_attr_create', 'int', ['void *']),
    attributesSetPost: bind<(attributes: Address, post: Address) => number>('dnnl_primitive_attr_set_post_ops', 'int', [
      address,
      address,
    ]),
    attributesDestroy: bind<(attributes: Address) => number>('dnnl_primitive_attr_destroy', 'int', [address]),
    postCreate: bind<(out: OutAddress) => number>('dnnl_post_ops_create', 'int', ['void *']),
    postAddSum: bind<(post: Address, scale: number, zero: number, type: number) => number>(
      'dnnl_post_ops_append_sum',
      'int',
      [address, 'float', 'int32', 'int'],
    ),
    postAddElementwise: bind<(post: Address, algorithm: number, alpha: number, beta: number) => number>(
      'dnnl_post_ops_append_eltwise',
      'int',
      [address, 'int', 'float', 'float'],
    ),
    postAddBinary: bind<(post: Address, algorithm: number, operand: Address) => number>(
      'dnnl_post_ops_append_binary',
      'int',
      [address, 'int', address],
    ),
    postDestroy: bind<(post: Address) => number>('dnnl_post_ops_destroy', 'int', [address]),
    memoryCreate: bind<(out: OutAddress, description: Address, engine: Address, data: Address) => number>(
      'dnnl_memory_create',
      'int',
      ['void *', address, address, address],
    ),
    memoryGetData: bind<(memory: Address, out: OutAddress) => number>('dnnl_memory_get_data_handle', 'int', [
      address,
      'void *',
    ]),
    memorySetData: bind<(memory: Address, data: Address) => number>('dnnl_memory_set_data_handle', 'int', [
      address,
      address,
    ]),
    memoryDestroy: bind<(memory: Address) => number>('dnnl_memory_destroy', 'int', [address]),
    execute: bind<(primitive: Address, stream: Address, numArguments: number, args: BigUint64Array) => number>(
      'dnnl_primitive_execute',
      'int',
      [address, address, 'int', 'void *'],
    ),
  };
}

/** C interface of oneDNN (dnnl.h), on a library of the machine. */
export interface OneDnnLibrary extends ReturnType<typeof bindOneDnn> {
  readonly versionText: string;
  /** True if this processor multiplies bf16; without, the library would be slow and compute different numbers. */
  readonly hasBf16: boolean;
  readonly setNumThreads: (count: number) => void;
  /** Both live as long as the process. */
  readonly engine: Address;
  readonly stream: Address;
  made(call: (out: OutAddress) => number): Address;
  /** @throws {Error} unless the status is 0 */
  check(status: number): void;
}

const opened = new Map<string, OneDnnLibrary>();

/**
 * Loaded with the first call for a path. Each thread binds its own functions.
 *
 * @param path of a file, or a name that the system finds
 * @throws {NativeError} `native.library_mismatch` if it cannot be loaded, or is not a 3.x since 3.2 on OpenMP or
 * without threads
 */
export function oneDnnLibrary(path: string): OneDnnLibrary {
  const known = opened.get(path);
  if (known !== undefined) return known;
  let bound: ReturnType<typeof bindOneDnn>;
  try {
    bound = bindOneDnn(path);
  } catch (cause) {
    throw new NativeError('native.library_mismatch', `cannot load oneDNN from ${path}: ${String(cause)} (${REMEDY})`, {
      cause,
    });
  }
  // struct dnnl_version_t: three numbers, four bytes of padding, the address of a text, the kind of threads.
  const [major, minor, patch, , , , runtime] = koffi().decode(bound.version(), 'int32', 7) as number[];
  const versionText = `${major}.${minor}.${patch}`;
  if (major !== MAJOR_VERSION || minor! < MIN_MINOR_VERSION || !Object.values<number>(RUNTIME).includes(runtime!)) {
    throw new NativeError(
      'native.library_mismatch',
      `oneDNN ${versionText} in ${path} is not supported: version ${MAJOR_VERSION}.x from ${MAJOR_VERSION}.${MIN_MINOR_VERSION} with OpenMP threads is required (${REMEDY})`,
    );
  }
  const check = (status: number) => {
    if (status !== 0) throw new Error(`oneDNN: status ${status}`);
  };
  const made = (call: (out: OutAddress) => number) => {
    const out = new BigUint64Array(1);
    check(call(out));
    return out[0]!;
  };
  const engine = made((out) => bound.engineCreate(out, CPU, 0));
  const stream = made((out) => bound.streamCreate(out, engine, IN_ORDER));
  const hasBf16 = (bound.effectiveIsa() & ISA_BF16) === ISA_BF16;
  // From the threading library, which is loaded with it.
  const setNumThreads =
    runtime === RUNTIME.openMp
      ? (bound.library.func('omp_set_num_threads', 'void', ['int']) as KoffiFunc<(count: number) => void>)
      : () => undefined;
  const library = { ...bound, versionText, setNumThreads, hasBf16, engine, stream, made, check };
  opened.set(path, library);
  return library;
}

/** Describes a matrix [rows, columns]. @param strides in values; default: row by row */
export function describeMatrix(
  library: OneDnnLibrary,
  type: number,
  dims: readonly [number, number],
  strides: readonly [number, number] = [dims[1], 1],
): Address {
  const [sizes, steps] = [BigInt64Array.from(dims, BigInt), BigInt64Array.from(strides, BigInt)];
  return library.made((out) => library.describeWithStrides(out, 2, sizes, type, steps));
}

/** Leaves the layout to the library. */
export function describeAnyLayout(library: OneDnnLibrary, type: number, dims: readonly [number, number]): Address {
  const sizes = BigInt64Array.from(dims, BigInt);
  return library.made((out) => library.describeWithTag(out, 2, sizes, type, ANY_LAYOUT));
}

/** @returns a description, which the caller must destroy */
export const weightsLayout = (library: OneDnnLibrary, description: Address): Address =>
  library.made((out) => library.descriptionClone(out, library.queryLayout(description, WEIGHTS_LAYOUT, 0)));
