import assert from 'node:assert';
import { statSync } from 'node:fs';
import { NativeError } from '../binding/errors.ts';
import { library } from '../binding/library.ts';
import { cPath } from './llama-model.ts';
import type { LlamaModel } from './llama-model.ts';
import { captureErrors } from '../binding/log.ts';
import { NativeHandle } from '../binding/native-handle.ts';
import type { Pointer } from '../binding/structs.ts';

/** Closing it removes it from every context that uses it. */
export class LlamaAdapter implements Disposable {
  readonly path: string;
  /** Bytes of its file; its tensors in memory take nearly the same. */
  readonly sizeBytes: number;
  readonly model: LlamaModel;
  /** @internal */
  readonly handle: NativeHandle;

  /**
   * @throws {NativeError} `native.adapter_unreadable`: missing, malformed, or of another architecture or shape
   * than the model
   */
  static load(model: LlamaModel, path: string): LlamaAdapter {
    assert(model.hasWeights, `${model.path} was loaded with vocabOnly`);
    const { size } = statSync(path, { throwIfNoEntry: false }) ?? {};
    if (size === undefined) throw new NativeError('native.adapter_unreadable', `there is no adapter file ${path}`);
    const { result, errors } = captureErrors(() => library().adapterLoad(model.handle.address, cPath(path)));
    if (result === null) {
      const reason = errors || 'no reason given';
      throw new NativeError('native.adapter_unreadable', `cannot load the adapter ${path}: ${reason}`);
    }
    return new LlamaAdapter(model, path, size, result);
  }

  private constructor(model: LlamaModel, path: string, sizeBytes: number, address: Pointer) {
    this.model = model;
    this.path = path;
    this.sizeBytes = sizeBytes;
    this.handle = new NativeHandle('LlamaAdapter', address, library().adapterFree);
    const unlisten = model.handle.onClose(() => this.close());
    this.handle.onClose(unlisten);
  }

  close(): void {
    this.handle.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
