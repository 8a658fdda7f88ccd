import { StoreError } from '../../contract/errors.ts';
import type { Access } from '../access.ts';
import type { Adapters } from './adapters.ts';
import { enqueueImport, finishImport, removeAdapters } from './transfer-lifecycle.ts';

export function sqlAdapters({ tables, now, write, writeAnswered }: Access): Adapters {
  return {
    create: (input) =>
      writeAnswered(
        async ({ adapters, announcedKeys }) => {
          const { entityId, maxOpen = Infinity } = input;
          const numOpen = maxOpen === Infinity ? 0 : await adapters.countUploads(entityId);
          if (numOpen >= maxOpen) throw new StoreError('store.queue_full', `${numOpen} uploads of adapters are open`);
          const adapter = await adapters.insert(input, now());
          await announcedKeys.learn([input.configKey, input.weightsKey], now());
          return adapter;
        },
        () => input.completes,
      ),
    get: async (adapterId) => await tables.adapters.get(adapterId),
    list: async (query) => await tables.adapters.list(query),
    enqueueImport: (adapterId, options = {}) => write((own) => enqueueImport(own, adapterId, options, now())),
    finishImport: (jobId, fencingToken, content) =>
      write((own) => finishImport(own, { jobId, fencingToken }, content, now())),
    delete: (adapterId, completes) =>
      writeAnswered(
        async (own) => {
          const adapter = await own.adapters.get(adapterId);
          return adapter === null ? null : await removeAdapters(own, [adapter], now());
        },
        () => completes,
      ),
    expireUploads: (entityId, before) =>
      write(async (own) => await removeAdapters(own, await own.adapters.listUploads(entityId, before), now())),
  };
}
