import type { Access } from '../access.ts';
import type { Files } from './files.ts';

export function sqlFiles({ tables, instanceId, now, write }: Access): Files {
  return {
    // After a power failure there is no other process to inform.
    announce: (key) => write(({ announcedKeys }) => announcedKeys.add(key, instanceId, now()), { isDurable: false }),
    listAnnounced: async () => await tables.announcedKeys.listProtected(now()),
    listKnown: async () => await tables.announcedKeys.listKnown(),
    learnNamed: () => write(({ announcedKeys }) => announcedKeys.learnNamed(now())),
    setOrphans: (keys) => write(({ announcedKeys }) => announcedKeys.setOrphans(keys, now())),
    forget: (keys) => write(({ announcedKeys }) => announcedKeys.forget(keys)),
    listReferenced: async () => ({
      directoryKeys: await tables.checkpoints.listDirectoryKeys(),
      blobKeys: await tables.logs.listBlobKeys(),
    }),
    isNamed: async (key) => (await tables.checkpoints.refersTo(key)) || (await tables.logs.refersTo(key)),
    blobsId: async () => await tables.blobPlaces.id(),
    claimBlobs: (id) => write(({ blobPlaces }) => blobPlaces.claim(id)),
  };
}
