import { type Blobs, StoreError } from '@trainyard/store';

import type { Faults } from './faults.ts';
import type { SimulatedProcess } from './simulated-process.ts';

/** Methods that answer at once, or in chunks. */
const UNGATED: ReadonlySet<string | symbol> = new Set(['getJsonLines', 'close', 'location', 'discardDirectory']);

/** Blobs in a folder on a shared file system that sometimes does not answer. */
export function gatedBlobs(blobs: Blobs, process: SimulatedProcess, faults: Faults): Blobs {
  return new Proxy(blobs, {
    get: (target, name) => {
      const member = Reflect.get(target, name, target) as unknown;
      if (typeof member !== 'function') return member;
      const method = member as (...values: unknown[]) => unknown;
      if (UNGATED.has(name)) return (...values: unknown[]) => method.apply(target, values);
      return async (...values: unknown[]) => {
        const after = await faults.before(process);
        if (faults.ofFolder(process)) throw new StoreError('store.unavailable', 'the file system does not answer');
        const result = await method.apply(target, values);
        await after();
        return result;
      };
    },
  });
}
