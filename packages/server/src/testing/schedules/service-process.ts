import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

import type { FastifyInstance, LightMyRequestResponse } from 'fastify';
import type { Blobs, SqlStore } from '@trainyard/store';

import { dataPaths } from '../../seams/data/data-directory.ts';
import { createServer } from '../../gateway/create-server.ts';
import { ExportWorker } from '../../jobs/kinds/export-worker.ts';
import { ImportWorker } from '../../jobs/kinds/import-worker.ts';
import { TrainingWorker } from '../../jobs/kinds/training-worker.ts';
import { type JobWorkers, remoteJobWorkers, workersTogether } from '../../service/parts/job-workers.ts';
import type { ServiceConfig } from '../../service/settings/config.ts';
import { type DataConfig, openData } from '../../service/parts/open-data.ts';
import { ScriptedInference } from '../scripted-inference.ts';
import { DisturbedNetwork } from './disturbed-network.ts';
import type { Faults } from './faults.ts';
import { gatedBlobs } from './gated-blobs.ts';
import { BigramTraining, DigestTransfers } from './scripted-hosts.ts';
import { SimulatedProcess } from './simulated-process.ts';
import type { VirtualTime } from './virtual-time.ts';
import type { WriterTurns } from './writer-turns.ts';

/** Base model of a schedule: `BigramPolicy`, one token per byte. */
export const BASE_MODEL = { id: 'tiny/bigram', contextLength: 512, vocabSize: 259 };
const CACHE_BYTES = 1_000_000_000;

export interface World {
  readonly time: VirtualTime;
  readonly faults: Faults;
  /** folder of everything that is on disk */
  readonly directory: string;
  readonly database: string;
  readonly turns: WriterTurns;
  /** of all processes, including those killed during their start */
  readonly networks: Set<DisturbedNetwork>;
  /** address of the bucket; null: blobs are in a shared folder */
  readonly bucket: string | null;
  readonly log: (line: string) => void;
}

export interface ProcessSettings {
  readonly name: string;
  readonly role: 'api' | 'trainer' | 'all';
  /** its data folder, which is its identity: an earlier process may have used it */
  readonly dataDirectory: string;
  /** address of a schema; default: that of the world */
  readonly database?: string;
  /** Default false. */
  readonly adoptsBlobs?: boolean;
}

/**
 * One process of the service, assembled from the real parts like `startService` and `startParts`, except for
 * samplers and hosts.
 */
export class ServiceProcess {
  readonly settings: ProcessSettings;
  readonly process: SimulatedProcess;
  readonly store: SqlStore;
  readonly blobs: Blobs;
  readonly #app: FastifyInstance | null;
  readonly #network: DisturbedNetwork;
  readonly #cleanups: (() => unknown)[];

  /** @throws {StoreError} if the database or the blobs are unavailable */
  static async start(world: World, settings: ProcessSettings, process: SimulatedProcess): Promise<ServiceProcess> {
    const directory = join(world.directory, settings.name);
    const network = await DisturbedNetwork.open({ ...world, directory, process });
    world.networks.add(network);
    const cleanups: (() => unknown)[] = [];
    try {
      return await process.run(async () => {
        const parts = await openParts(world, settings, { process, network, cleanups });
        return new ServiceProcess({ settings, process, network, cleanups, ...parts });
      });
    } catch (error) {
      for (const cleanup of cleanups.toReversed()) await cleanup();
      await network.close();
      throw error;
    }
  }

  private constructor(parts: {
    settings: ProcessSettings;
    process: SimulatedProcess;
    store: SqlStore;
    blobs: Blobs;
    app: FastifyInstance | null;
    network: DisturbedNetwork;
    cleanups: (() => unknown)[];
  }) {
    this.settings = parts.settings;
    this.process = parts.process;
    this.store = parts.store;
    this.blobs = parts.blobs;
    this.#app = parts.app;
    this.#network = parts.network;
    this.#cleanups = parts.cleanups;
  }

  get servesHttp(): boolean {
    return this.#app !== null;
  }

  /** Never resolves if the process is killed meanwhile. */
  async request(
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    url: string,
    options: { body?: string; headers?: Record<string, string> },
  ): Promise<LightMyRequestResponse> {
    const app = this.#app;
    if (app === null) throw new Error(`${this.settings.name} has no HTTP`);
    const { body, headers } = options;
    const answer = await this.process.run(
      async () =>
        await app.inject({ method, url, headers: headers ?? {}, ...(body === undefined ? {} : { payload: body }) }),
    );
    await this.process.pass();
    return answer;
  }

  /** @param isTold the database server notices at once, as from a machine that outlives the process */
  kill(isTold: boolean): void {
    this.process.kill();
    this.#network.abandon(isTold);
  }

  async close(): Promise<void> {
    await this.process.run(async () => {
      for (const cleanup of this.#cleanups.toReversed()) await cleanup();
    });
    await this.#network.close();
  }
}

async function openParts(
  world: World,
  settings: ProcessSettings,
  { process, network, cleanups }: { process: SimulatedProcess; network: DisturbedNetwork; cleanups: (() => unknown)[] },
): Promise<{ store: SqlStore; blobs: Blobs; app: FastifyInstance | null }> {
  const { bucket, directory, faults, time, log } = world;
  const { role, dataDirectory } = settings;
  const { work: workDirectory, blobs: blobsDirectory } = dataPaths(dataDirectory);
  mkdirSync(workDirectory, { recursive: true });
  const shared = join(directory, 'blobs');
  mkdirSync(shared, { recursive: true });
  if (bucket === null && !existsSync(blobsDirectory)) symlinkSync(shared, blobsDirectory);
  const database = { kind: 'postgres', url: network.database, maxConnections: 4 } as const;
  const config: DataConfig = {
    dataDirectory,
    database,
    bucket: bucketOf(bucket, directory),
    outageSeconds: 0,
    choiceRecordHours: 24,
    choiceRecordMegabytes: 1,
    storeResponsesMs: 86_400_000,
    storeResponsesMegabytes: 1,
    adoptsBlobs: settings.adoptsBlobs ?? false,
    entity: 'local',
    models: [],
    modelId: BASE_MODEL.id,
  };
  const opened = await openData(config, cleanups, log);
  const { store } = opened;
  const pass = async () => {
    const after = await faults.before(process);
    const ms = faults.computingMs(process);
    if (ms > 0) await time.sleep(ms);
    await after();
  };
  const blobs = bucket === null ? gatedBlobs(opened.blobs, process, faults) : opened.blobs;
  const parts = { store, blobs, modelPaths: (id: string) => (id === BASE_MODEL.id ? `/${id}.gguf` : null), log };
  const workers = role === 'api' ? remoteJobWorkers(parts) : workersHere({ ...parts, workDirectory, pass });
  cleanups.push(() => workers.stop());
  workers.run();
  cleanups.push(store.feed.watch(() => workers.notify()));
  if (role === 'trainer') return { store, blobs, app: null };
  const app = createServer({
    store,
    blobs,
    inference: new ScriptedInference(BASE_MODEL),
    training: workers.training,
    exports: workers.exports,
    imports: workers.imports,
    log,
  });
  await app.ready();
  cleanups.push(() => app.close());
  return { store, blobs, app };
}

function workersHere(parts: {
  store: SqlStore;
  blobs: Blobs;
  modelPaths: (id: string) => string | null;
  workDirectory: string;
  pass: () => Promise<void>;
  log: (line: string) => void;
}): JobWorkers {
  const training = new TrainingWorker({ ...parts, backend: new BigramTraining(parts), snapshotSteps: 1 });
  const backend = new DigestTransfers(parts.pass);
  const exports = new ExportWorker({ ...parts, backend });
  const imports = new ImportWorker({ ...parts, backend });
  return {
    ...workersTogether({ training, exports, imports }),
    addBaseModel: () => undefined,
    close: async () => undefined,
  };
}

function bucketOf(url: string | null, directory: string): ServiceConfig['bucket'] {
  if (url === null) return null;
  const cacheDirectory = join(directory, `cache-${randomUUID()}`);
  return { kind: 's3', url, region: 'us-east-1', cacheDirectory, cacheBytes: CACHE_BYTES };
}
