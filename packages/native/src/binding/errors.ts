export type NativeErrorCode =
  | 'native.platform_unsupported'
  | 'native.library_mismatch'
  | 'native.model_unreadable'
  | 'native.adapter_unreadable'
  | 'native.kv_full'
  | 'native.decode_failed'
  | 'native.quantize_failed'
  | 'native.gguf_malformed';

/** A native failure that the user can fix. The message ends with llama.cpp's own text, if any. */
export class NativeError extends Error {
  override readonly name = 'NativeError';
  readonly code: NativeErrorCode;

  constructor(code: NativeErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
