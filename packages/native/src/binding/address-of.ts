import { koffi } from './koffi.ts';

/** Address of data in this process, for its other threads. Valid while the data is referenced. */
export function addressOf(data: ArrayBufferView): bigint {
  return koffi().address(data) as bigint;
}
