import type { Store } from '@trainyard/store';

import { copyInChild } from '../../hosts/pool/copy-in-child.ts';
import { PullWorker } from '../../jobs/kinds/pull-worker.ts';
import type { HubBases } from '../../seams/contract/hub-bases.ts';
import { dataPaths } from '../../seams/data/data-directory.ts';
import type { Log } from '../../seams/logging/log.ts';
import type { ServiceConfig } from '../settings/config.ts';
import { ServedHubBases } from './hub-bases.ts';
import type { JobWorkers } from './job-workers.ts';
import type { AddBaseModel } from './open-inference.ts';
import type { OpenModelFiles } from './open-model-files.ts';

export interface Pulls {
  readonly bases: HubBases;
  /** Takes pull jobs, and opens the bases of earlier ones. */
  start(): Promise<void>;
  /** Something changed in the database. */
  notify(): void;
  stop(): Promise<void>;
}

/** Base models that clients name, fetched and served by this process. */
export function openPulls(
  config: ServiceConfig,
  parts: {
    readonly store: Store;
    readonly servedIds: () => readonly string[];
    readonly addBaseModel: AddBaseModel;
    readonly modelFiles: OpenModelFiles;
    readonly workers: Pick<JobWorkers, 'addBaseModel' | 'notify'>;
    readonly log: Log;
  },
): Pulls {
  const { store, servedIds, addBaseModel, modelFiles, workers, log } = parts;
  const { models: directory } = dataPaths(config.dataDirectory);
  const open = async (id: string, given: string, signal: AbortSignal) => {
    signal.throwIfAborted();
    const { model: forAll } = config.hubAccess;
    const { path } = await copyInChild({ path: given, chatTemplate: forAll.chatTemplate, directory }, { log, signal });
    const model = { ...forAll, id, path, hub: null, vllmUrls: [] };
    modelFiles.add(model);
    await addBaseModel(model);
    workers.addBaseModel(id);
    workers.notify();
  };
  // One after the other: two names may mean one folder, whose copy has one writer.
  let last: Promise<unknown> = Promise.resolve();
  const bases = new ServedHubBases({
    store,
    access: config.hubAccess,
    served: servedIds,
    open: (...given) => {
      const opened = last.then(() => open(...given));
      last = opened.catch(() => undefined);
      return opened;
    },
    worker: { notify: () => worker.notify(), cancelJob: (jobId) => worker.cancelJob(jobId) },
    log,
  });
  const worker = new PullWorker({ store, fetch: bases.fetch, log });
  return {
    bases,
    start: async () => {
      await bases.start();
      worker.start();
    },
    notify: () => {
      worker.notify();
      bases.notify();
    },
    stop: async () => {
      await Promise.all([worker.stop(), bases.stop()]);
    },
  };
}
