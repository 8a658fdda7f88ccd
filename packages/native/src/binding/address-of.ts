import { koffi } from './koffi.ts';

/** Where data lie in this process: for its other threads, as long as somebody keeps them. */
export function addressOf(data: ArrayBufferView): bigint {
  return koffi().address(data) as bigint;
}
