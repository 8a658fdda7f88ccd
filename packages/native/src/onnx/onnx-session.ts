import assert from 'node:assert';
import { koffi } from '../binding/koffi.ts';
import type { Address } from './onnx-library.ts';
import { FATAL_ONLY, onnxLibrary } from './onnx-library.ts';

const ALL_OPTIMIZATIONS = 99;
const FLOAT32 = 1;
const INT64 = 7;
const MAX_DIMS = 8;

/** Memory and its shape, read or written in place. */
export interface OnnxTensor {
  readonly data: Float32Array | BigInt64Array;
  readonly dims: readonly number[];
}

export interface OnnxSessionOptions {
  /** Threads per run, including the calling one. */
  readonly numThreads: number;
  /** Inputs of the model, in the order of `run`'s tensors. */
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  /** External weight files by name, read by the constructor. Default: none. */
  readonly weightFiles?: ReadonlyMap<string, Float32Array>;
  /**
   * Takes intermediate results from one arena, shared in turns by all such sessions; each would otherwise keep
   * memory for its largest run. Threads started before the main thread's first such session keep their own memory.
   * Default false.
   */
  readonly sharesArena?: boolean;
}

/** Handle of a session for other threads of the process, valid while it is open. */
export interface OnnxSessionPlace {
  readonly address: bigint;
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
}

/** A model in ONNX Runtime, on the processor. */
export class OnnxSession {
  readonly place: OnnxSessionPlace;
  #runs: BorrowedOnnxSession | null;

  /** @throws {Error} with ONNX Runtime's message if it cannot load the model */
  constructor(model: Uint8Array, sessionOptions: OnnxSessionOptions) {
    const { numThreads, inputNames, outputNames, weightFiles = new Map(), sharesArena = false } = sessionOptions;
    const library = onnxLibrary();
    const options = library.made((out) => library.createSessionOptions(out));
    try {
      library.check(library.setSessionLogSeverityLevel(options, FATAL_ONLY));
      library.check(library.setSessionGraphOptimizationLevel(options, ALL_OPTIMIZATIONS));
      library.check(library.setIntraOpNumThreads(options, numThreads));
      library.check(library.setInterOpNumThreads(options, 1));
      // Each session has its own threads; spinning ones would hold a core that the next session needs. Forward and
      // backward of 896 tokens, two threads on two cores: 4.3 s, with spinning 8.2 s.
      library.check(library.addSessionConfigEntry(options, 'session.intra_op.allow_spinning', '0'));
      if (sharesArena) {
        if (library.hasSharedArena())
          library.check(library.addSessionConfigEntry(options, 'session.use_env_allocators', '1'));
        // A memory plan per combination of input shapes would be kept, 1 KB per session: batches have thousands of
        // shapes.
        library.check(library.disableMemPattern(options));
      }
      if (weightFiles.size > 0) {
        const names = new CStrings([...weightFiles.keys()]);
        const contents = [...weightFiles.values()];
        const addresses = BigUint64Array.from(contents, (data) => koffi().address(data));
        const sizes = BigUint64Array.from(contents, ({ byteLength }) => BigInt(byteLength));
        library.check(
          library.addExternalInitializersFromFilesInMemory(
            options,
            names.addresses,
            addresses,
            sizes,
            weightFiles.size,
          ),
        );
      }
      const address = library.made((out) =>
        library.createSessionFromArray(library.env, model, model.byteLength, options, out),
      );
      this.place = { address, inputNames, outputNames };
    } finally {
      library.releaseSessionOptions(options);
    }
    this.#runs = new BorrowedOnnxSession(this.place);
  }

  run(inputs: readonly OnnxTensor[], outputs: readonly OnnxTensor[]): void {
    assert(this.#runs !== null, 'this session is closed');
    this.#runs.run(inputs, outputs);
  }

  close(): void {
    if (this.#runs === null) return;
    onnxLibrary().releaseSession(this.place.address);
    this.#runs = null;
  }
}

/** ONNX Runtime allows simultaneous runs of a session. */
export class BorrowedOnnxSession {
  readonly #session: Address;
  readonly #inputNames: CStrings;
  readonly #outputNames: CStrings;
  readonly #shape = new BigInt64Array(MAX_DIMS);
  readonly #out = new BigUint64Array(1);
  readonly #inputs: BigUint64Array;
  readonly #outputs: BigUint64Array;

  constructor({ address, inputNames, outputNames }: OnnxSessionPlace) {
    this.#session = address;
    this.#inputNames = new CStrings(inputNames);
    this.#outputNames = new CStrings(outputNames);
    this.#inputs = new BigUint64Array(inputNames.length);
    this.#outputs = new BigUint64Array(outputNames.length);
  }

  /**
   * Blocks the calling thread.
   *
   * @param outputs memory for every output, of the right size
   * @throws {Error} with ONNX Runtime's message, for example on a shape mismatch
   */
  run(inputs: readonly OnnxTensor[], outputs: readonly OnnxTensor[]): void {
    const library = onnxLibrary();
    try {
      this.#describe(inputs, this.#inputs);
      this.#describe(outputs, this.#outputs);
      library.check(
        library.run(
          this.#session,
          0n,
          this.#inputNames.addresses,
          this.#inputs,
          inputs.length,
          this.#outputNames.addresses,
          outputs.length,
          this.#outputs,
        ),
      );
    } finally {
      for (const values of [this.#inputs, this.#outputs]) {
        for (const value of values) if (value !== 0n) library.releaseValue(value);
        values.fill(0n);
      }
    }
  }

  #describe(tensors: readonly OnnxTensor[], into: BigUint64Array): void {
    assert.equal(tensors.length, into.length, 'one tensor for each name');
    const library = onnxLibrary();
    for (const [index, { data, dims }] of tensors.entries()) {
      assert(dims.length <= MAX_DIMS, `a tensor of ${dims.length} dimensions`);
      let size = 1;
      for (const [axis, dim] of dims.entries()) {
        this.#shape[axis] = BigInt(dim);
        size *= dim;
      }
      assert.equal(data.length, size, `a tensor of [${dims.join()}] needs as many elements`);
      const type = data instanceof Float32Array ? FLOAT32 : INT64;
      library.check(
        library.createTensorWithData(
          library.cpuMemory,
          data,
          data.byteLength,
          this.#shape,
          dims.length,
          type,
          this.#out,
        ),
      );
      into[index] = this.#out[0]!;
    }
  }
}

class CStrings {
  readonly #bytes: Uint8Array;
  readonly addresses: BigUint64Array;

  constructor(all: readonly string[]) {
    const encoded = all.map((text) => new TextEncoder().encode(`${text}\0`));
    // Explicit buffer: small typed arrays may be in the JavaScript heap, where garbage collection moves them.
    this.#bytes = new Uint8Array(new ArrayBuffer(encoded.reduce((sum, { length }) => sum + length, 0)));
    this.addresses = new BigUint64Array(all.length);
    const start = koffi().address(this.#bytes);
    let at = 0;
    for (const [index, bytes] of encoded.entries()) {
      this.#bytes.set(bytes, at);
      this.addresses[index] = start + BigInt(at);
      at += bytes.length;
    }
  }
}
