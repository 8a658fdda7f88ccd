import { createHash, createHmac } from 'node:crypto';

type Bytes = ArrayBuffer | ArrayBufferView;

/**
 * Digests and signatures of SHA-256 at once, in place of those of `crypto.subtle`, for the requests to a bucket. Those take a turn of another thread each,
 * ten a request, and the event loop does not tell of them.
 */
const PROMPT: PropertyDescriptorMap = {
  digest: {
    configurable: true,
    value: async (_: 'SHA-256', bytes: Bytes) => own(createHash('sha256').update(view(bytes))),
  },
  importKey: { configurable: true, value: async (_: 'raw', bytes: Bytes) => bytes },
  sign: {
    configurable: true,
    value: async (_: 'HMAC', key: Bytes, bytes: Bytes) => own(createHmac('sha256', view(key)).update(view(bytes))),
  },
};

export function beginPromptCrypto(): void {
  Object.defineProperties(crypto.subtle, PROMPT);
}

export function endPromptCrypto(): void {
  for (const name of Object.keys(PROMPT)) Reflect.deleteProperty(crypto.subtle, name);
}

function view(bytes: Bytes): Uint8Array {
  return bytes instanceof ArrayBuffer
    ? new Uint8Array(bytes)
    : new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function own(hash: { digest: () => Buffer }): ArrayBuffer {
  return Uint8Array.from(hash.digest()).buffer;
}
