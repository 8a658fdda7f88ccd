import { createHash, createHmac } from 'node:crypto';

type Bytes = ArrayBuffer | ArrayBufferView;

/**
 * Synchronous SHA-256 digests and signatures instead of those of `crypto.subtle`, for bucket requests. Those
 * use another thread each, ten per request, unknown to the event loop.
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
