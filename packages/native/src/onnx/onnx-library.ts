import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { getEnvironmentData, isMainThread, setEnvironmentData } from 'node:worker_threads';
import type { KoffiFunc, TypeObject } from 'koffi';
import { NativeError } from '../binding/errors.ts';
import { koffi } from '../binding/koffi.ts';

/** `GetVersionString` of the pinned package. */
const ONNX_RUNTIME_VERSION = '1.30.0';
/** Requested version of the function table; newer libraries still offer it. */
const API_VERSION = 18;
// Errors are thrown; the library's own lines on stderr would repeat them.
export const FATAL_ONLY = 4;

/** An address. Passed as a number, because most come from arrays. */
export type Address = bigint;
type OutAddress = BigUint64Array;

/** Indices in `struct OrtApi`, which only grows at its end (onnxruntime_c_api.h). */
const PLACES = {
  getErrorMessage: 2,
  createEnv: 3,
  createSessionFromArray: 8,
  run: 9,
  createSessionOptions: 10,
  disableMemPattern: 17,
  setSessionLogSeverityLevel: 22,
  setSessionGraphOptimizationLevel: 23,
  setIntraOpNumThreads: 24,
  setInterOpNumThreads: 25,
  createTensorWithData: 49,
  createCpuMemoryInfo: 69,
  releaseStatus: 93,
  releaseSession: 95,
  releaseValue: 96,
  releaseSessionOptions: 100,
  addSessionConfigEntry: 130,
  createAndRegisterAllocator: 144,
  addExternalInitializersFromFilesInMemory: 279,
} as const;

/**
 * The binding of `onnxruntime-node` copies every output into a fresh ArrayBuffer, even with preallocated memory:
 * 0.6 ms per megabyte, a tenth of a training step.
 */
function bindOnnxRuntime() {
  const { decode, load, proto } = koffi();
  const library = load(libraryPath());
  const base = (library.func('OrtGetApiBase', 'void *', []) as KoffiFunc<() => Address>)();
  const entry = (table: Address, place: number) => decode(table, 8 * place, 'void *') as Address;
  const getApi = decode(entry(base, 0), proto('void *', ['uint32'])) as KoffiFunc<(version: number) => Address>;
  const getVersion = decode(entry(base, 1), proto('const char *', [])) as KoffiFunc<() => string>;
  const version = getVersion();
  if (version !== ONNX_RUNTIME_VERSION) {
    throw new NativeError(
      'native.library_mismatch',
      `the ONNX Runtime library is version ${version}, not ${ONNX_RUNTIME_VERSION}: install the pinned onnxruntime-node`,
    );
  }
  const api = getApi(API_VERSION);
  const bind = <F extends (...args: never[]) => unknown>(
    name: keyof typeof PLACES,
    result: string,
    parameters: (string | TypeObject)[],
  ) => decode(entry(api, PLACES[name]), proto(result, parameters)) as KoffiFunc<F>;
  // Calls that return an address return a status: 0, or an error to be released.
  return {
    // Referenced, because functions found by address do not keep the library loaded.
    library,
    getErrorMessage: bind<(status: Address) => string>('getErrorMessage', 'const char *', ['uintptr_t']),
    createEnv: bind<(severity: number, name: string, out: OutAddress) => Address>('createEnv', 'uintptr_t', [
      'int',
      'const char *',
      'void *',
    ]),
    createAndRegisterAllocator: bind<(env: Address, memory: Address, arena: Address) => Address>(
      'createAndRegisterAllocator',
      'uintptr_t',
      ['uintptr_t', 'uintptr_t', 'uintptr_t'],
    ),
    createSessionFromArray: bind<
      (env: Address, model: Uint8Array, size: number, options: Address, out: OutAddress) => Address
    >('createSessionFromArray', 'uintptr_t', ['uintptr_t', 'void *', 'size_t', 'uintptr_t', 'void *']),
    run: bind<
      (
        session: Address,
        options: Address,
        inputNames: BigUint64Array,
        inputs: BigUint64Array,
        numInputs: number,
        outputNames: BigUint64Array,
        numOutputs: number,
        outputs: BigUint64Array,
      ) => Address
    >('run', 'uintptr_t', ['uintptr_t', 'uintptr_t', 'void *', 'void *', 'size_t', 'void *', 'size_t', 'void *']),
    createSessionOptions: bind<(out: OutAddress) => Address>('createSessionOptions', 'uintptr_t', ['void *']),
    setSessionLogSeverityLevel: bind<(options: Address, level: number) => Address>(
      'setSessionLogSeverityLevel',
      'uintptr_t',
      ['uintptr_t', 'int'],
    ),
    setSessionGraphOptimizationLevel: bind<(options: Address, level: number) => Address>(
      'setSessionGraphOptimizationLevel',
      'uintptr_t',
      ['uintptr_t', 'int'],
    ),
    setIntraOpNumThreads: bind<(options: Address, count: number) => Address>('setIntraOpNumThreads', 'uintptr_t', [
      'uintptr_t',
      'int',
    ]),
    disableMemPattern: bind<(options: Address) => Address>('disableMemPattern', 'uintptr_t', ['uintptr_t']),
    setInterOpNumThreads: bind<(options: Address, count: number) => Address>('setInterOpNumThreads', 'uintptr_t', [
      'uintptr_t',
      'int',
    ]),
    addSessionConfigEntry: bind<(options: Address, key: string, value: string) => Address>(
      'addSessionConfigEntry',
      'uintptr_t',
      ['uintptr_t', 'const char *', 'const char *'],
    ),
    addExternalInitializersFromFilesInMemory: bind<
      (
        options: Address,
        names: BigUint64Array,
        contents: BigUint64Array,
        sizes: BigUint64Array,
        numFiles: number,
      ) => Address
    >('addExternalInitializersFromFilesInMemory', 'uintptr_t', ['uintptr_t', 'void *', 'void *', 'void *', 'size_t']),
    createTensorWithData: bind<
      (
        memory: Address,
        data: Float32Array | BigInt64Array,
        size: number,
        shape: BigInt64Array,
        numDims: number,
        type: number,
        out: OutAddress,
      ) => Address
    >('createTensorWithData', 'uintptr_t', ['uintptr_t', 'void *', 'size_t', 'void *', 'size_t', 'int', 'void *']),
    createCpuMemoryInfo: bind<(allocator: number, kind: number, out: OutAddress) => Address>(
      'createCpuMemoryInfo',
      'uintptr_t',
      ['int', 'int', 'void *'],
    ),
    releaseStatus: bind<(status: Address) => void>('releaseStatus', 'void', ['uintptr_t']),
    releaseSession: bind<(session: Address) => void>('releaseSession', 'void', ['uintptr_t']),
    releaseValue: bind<(value: Address) => void>('releaseValue', 'void', ['uintptr_t']),
    releaseSessionOptions: bind<(options: Address) => void>('releaseSessionOptions', 'void', ['uintptr_t']),
  };
}

export interface OnnxLibrary extends ReturnType<typeof bindOnnxRuntime> {
  /** Lives as long as the process. */
  readonly env: Address;
  /** Describes memory that the library does not own. */
  readonly cpuMemory: Address;
  /** @throws {Error} with the library's message unless the status is 0 */
  check(status: Address): void;
  made(call: (out: OutAddress) => Address): Address;
  /** Creates the process's shared arena if missing. */
  hasSharedArena(): boolean;
}

/** Inherited by all threads started after the arena exists. */
const SHARED_ARENA = 'trainyard.onnx.shared-arena';

let opened: OnnxLibrary | undefined;

/**
 * Loaded with the first call. Each thread binds its own functions.
 *
 * @throws {NativeError} `native.platform_unsupported`, `native.library_mismatch`
 */
export function onnxLibrary(): OnnxLibrary {
  if (opened !== undefined) return opened;
  const bound = bindOnnxRuntime();
  const check = (status: Address) => {
    if (BigInt(status) === 0n) return;
    const message = bound.getErrorMessage(status);
    bound.releaseStatus(status);
    throw new Error(`ONNX Runtime: ${message}`);
  };
  const made = (call: (out: OutAddress) => Address) => {
    const out = new BigUint64Array(1);
    check(call(out));
    return out[0]!;
  };
  const env = made((out) => bound.createEnv(FATAL_ONLY, 'trainyard', out));
  // Arena allocator, default memory: description for tensors in the caller's memory.
  const cpuMemory = made((out) => bound.createCpuMemoryInfo(1, 0, out));
  const hasSharedArena = () => {
    // Made once, by one thread: ONNX Runtime replaces the previous arena without a lock while other sessions may be
    // opening.
    if (isMainThread && getEnvironmentData(SHARED_ARENA) === undefined) {
      check(library.createAndRegisterAllocator(env, cpuMemory, 0n));
      setEnvironmentData(SHARED_ARENA, true);
    }
    return getEnvironmentData(SHARED_ARENA) === true;
  };
  const library: OnnxLibrary = { ...bound, env, cpuMemory, check, made, hasSharedArena };
  opened = library;
  return opened;
}

function libraryPath(): string {
  const root = dirname(dirname(createRequire(import.meta.url).resolve('onnxruntime-node')));
  const directory = join(root, 'bin', 'napi-v6', process.platform, process.arch);
  let files: string[];
  try {
    files = readdirSync(directory);
  } catch (cause) {
    const place = `${process.platform}-${process.arch}`;
    throw new NativeError('native.platform_unsupported', `there is no prebuilt ONNX Runtime for ${place}`, { cause });
  }
  const file = files.find((name) => /^(lib)?onnxruntime(\.\d[\d.]*)?\.(so|dylib|dll)(\.\d+)?$/.test(name));
  if (file === undefined) throw new NativeError('native.library_mismatch', `no ONNX Runtime library in ${directory}`);
  return join(directory, file);
}
