import { ComputeArbiter } from './computing/compute-arbiter.ts';
import { dataPaths, instanceOf } from './data/data-directory.ts';
import { BaseScores } from './inference/base-scores.ts';
import { scoreInChild } from './inference/score-in-child.ts';
import { registerTrainer } from './members/register-trainer.ts';
import { ServiceMetrics } from './metrics/service-metrics.ts';
import type { ServiceConfig } from './service/config.ts';
import { openJobWorkers } from './service/job-workers.ts';
import { refuseMissingModels } from './service/model-settings.ts';
import { openData } from './service/open-data.ts';
import { serviceLog } from './service/service-log.ts';
import { SERVICE_VERSION } from './service/service-version.ts';
import { openTracing } from './tracing/open-tracing.ts';
import { servedPaths } from './service/open-inference.ts';

export interface RunningTrainer {
  /** the base models whose jobs it takes */
  readonly modelIds: readonly string[];
  /** Puts the running job back into the queue, and ends all hosts. */
  close(): Promise<void>;
}

/**
 * The workers of a service without its HTTP and its samplers: jobs come from the database that others write to. It opens no port.
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
    const { store, blobs } = await openData(config, cleanups);
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
      metrics: new ServiceMetrics().jobs,
      tracing,
      log,
    });
    cleanups.push(() => workers.close());
    cleanups.push(() => workers.stop());
    cleanups.push(await registerTrainer({ store, modelIds, modelPaths, log }));
    workers.run();
    cleanups.push(store.watchFeed(() => workers.notify()));
    return { modelIds, close: undo };
  } catch (error) {
    await undo();
    throw error;
  }
}
