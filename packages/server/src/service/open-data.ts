import type { DataMetrics } from '../metrics/data-metrics.ts';
import { checkOwnBlobs, openBlobs, openStore, removeOrphans, type Blobs, type SqlStore } from '@trainyard/store';

import { claimDataDirectory, dataPaths, instanceOf } from '../data/data-directory.ts';
import type { ServiceConfig } from './config.ts';

/** Prefixes of the blobs that services write; a crash between a blob and its row leaves an orphan. */
const BLOB_PREFIXES = [
  'checkpoints/',
  'groups/',
  'logs/',
  'sft/',
  'artifacts/',
  'exports/',
  'adapters/',
  'uploads/',
  'snapshots/',
];

/** All that outlives a process. */
export interface ServiceData {
  readonly store: SqlStore;
  readonly blobs: Blobs;
}

/**
 * Takes the data folder for this process, opens the database and the blobs, and takes up what the process before it left.
 *
 * @param cleanups are given what undoes each step, to be called in reverse
 * @param metrics are told of each call and request; default: nobody is
 * @throws {ServerError} `server.data_directory_unusable`
 * @throws {StoreError} for a database or blobs that cannot be used
 */
export async function openData(
  config: ServiceConfig,
  cleanups: (() => unknown)[],
  metrics?: DataMetrics,
): Promise<ServiceData> {
  cleanups.push(claimDataDirectory(config.dataDirectory));
  const paths = dataPaths(config.dataDirectory);
  const store = await openStore(config.database, {
    instanceId: instanceOf(config.dataDirectory),
    ...(metrics && { onCall: metrics.sawCall }),
    choiceRecords: {
      lifetimeMs: config.choiceRecordHours * 3_600_000,
      maxBytes: config.choiceRecordMegabytes * 1_000_000,
    },
  });
  cleanups.push(() => store.close());
  const blobs = await openBlobs(config.bucket ?? { kind: 'folder', root: paths.blobs }, process.env, {
    ...(metrics && { onRequest: metrics.sawRequest }),
  });
  cleanups.push(() => blobs.close());
  await checkOwnBlobs(store, blobs);
  await store.recoverAfterRestart();
  await removeOrphans(store, blobs, BLOB_PREFIXES);
  return { store, blobs };
}
