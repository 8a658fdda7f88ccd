import type { Store } from '@trainyard/store';

import { ComputeArbiter } from './computing/compute-arbiter.ts';
import { dataPaths, instanceOf } from './data/data-directory.ts';
import type { TrainingQueue } from './contract/backends.ts';
import { ownNames } from './edge/network-names.ts';
import { BaseScores } from './inference/base-scores.ts';
import { scoreInChild } from './inference/score-in-child.ts';
import { registerTrainer } from './members/register-trainer.ts';
import { queueFigures } from './metrics/queue-figures.ts';
import { ServiceMetrics } from './metrics/service-metrics.ts';
import type { ServiceConfig } from './service/config.ts';
import { openJobWorkers } from './service/job-workers.ts';
import { listen, metricsAccess, refuseOpenNetwork } from './service/listen.ts';
import { createMetricsServer } from './service/metrics-server.ts';
import { refuseMissingModels } from './service/model-settings.ts';
import { openData } from './service/open-data.ts';
import { serviceLog } from './service/service-log.ts';
import { SERVICE_VERSION } from './service/service-version.ts';
import { openTracing } from './tracing/open-tracing.ts';
import { servedPaths } from './service/open-inference.ts';

export interface RunningTrainer {
  /** the base models whose jobs it takes */
  readonly modelIds: readonly string[];
  /** e.g. `http://127.0.0.1:9100/metrics`; null where they are not asked for */
  readonly metricsUrl: string | null;
  /** Puts the running job back into the queue, and ends all hosts. */
  close(): Promise<void>;
}

/**
 * The workers of a service without its HTTP and its samplers: jobs come from the database that others write to. It opens no port but that of its metrics, where one is set.
 *
 * @param logRaw receives one line per thing worth knowing; never a secret
 * @throws {ServerError} with a message for the person who runs it: missing or corrupt model, folder in use …
 */
export async function startTrainer(config: ServiceConfig, logRaw: (line: string) => void): Promise<RunningTrainer> {
  const log = serviceLog(config, logRaw);
  refuseMissingModels(config.models);
  const cleanups: (() => unknown)[] = [];
  const undo = async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  };
  try {
    const metrics = new ServiceMetrics('trainer');
    const { store, blobs } = await openData(config, cleanups, metrics.data);
    const tracing = await openTracing({
      serviceVersion: SERVICE_VERSION,
      role: config.role,
      instance: instanceOf(config.dataDirectory),
      log,
    });
    cleanups.push(() => tracing?.close());
    const { numThreads } = config;
    const modelIds = config.models.map(({ id }) => id);
    const modelPaths = await servedPaths(config, { cacheDirectory: dataPaths(config.dataDirectory).models, log });
    const workers = await openJobWorkers(config, {
      store,
      blobs,
      modelPaths,
      arbiter: new ComputeArbiter(),
      scores: new BaseScores((modelPath) => scoreInChild({ modelPath, numThreads }, log)),
      metrics,
      tracing,
      log,
    });
    cleanups.push(() => workers.close());
    cleanups.push(() => workers.stop());
    cleanups.push(await registerTrainer({ store, modelIds, modelPaths, log }));
    metrics.sources = { training: workers.training, queue: () => queueFigures(store) };
    const metricsUrl = await openMetrics(config, { store, metrics, training: workers.training }, cleanups);
    workers.run();
    cleanups.push(store.watchFeed(() => workers.notify()));
    return { modelIds, metricsUrl, close: undo };
  } catch (error) {
    await undo();
    throw error;
  }
}

/** @returns the address of the metrics; null where none is set */
async function openMetrics(
  config: ServiceConfig,
  { store, metrics, training }: { store: Store; metrics: ServiceMetrics; training: TrainingQueue },
  cleanups: (() => unknown)[],
): Promise<string | null> {
  const { metricsListen: address, allowedHosts } = config;
  if (address === null) return null;
  refuseOpenNetwork(address, config);
  const access = metricsAccess(address, config);
  const server = createMetricsServer({
    store,
    metrics,
    access,
    troubles: { training: () => training.trouble(), store: () => store.trouble() },
    allowedHosts: [...ownNames(address.host), ...allowedHosts],
  });
  cleanups.push(() => server.close());
  return `${await listen(server, address, '--metrics-listen')}/metrics`;
}
