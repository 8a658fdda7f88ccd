import { ComputeArbiter } from './computing/compute-arbiter.ts';
import { nicenessOfShare } from './computing/niceness.ts';
import { dataPaths, instanceOf } from './data/data-directory.ts';
import { openEnginePort, refuseUnreachable } from './engines/port/open-engine-port.ts';
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
import { openInference, servedPaths } from './service/open-inference.ts';
import { does } from './service/role.ts';

export interface RunningParts {
  /** where API processes reach the engine; null: it samples for nobody */
  readonly engineUrl: string | null;
  /** the base models that it samples from, or whose jobs it takes */
  readonly modelIds: readonly string[];
  /** Lets requests in flight end, puts the running job back into the queue, and ends all hosts. */
  close(): Promise<void>;
}

/**
 * Parts of a service that stand behind its HTTP: an engine, whose port processes with HTTP ask; a trainer, which opens no port and takes jobs from the
 * database; or both on the cores of one machine.
 *
 * @param logRaw receives one line per thing worth knowing; never a secret
 * @throws {ServerError} with a message for the person who runs it: missing or corrupt model, folder in use …
 */
export async function startParts(config: ServiceConfig, logRaw: (line: string) => void): Promise<RunningParts> {
  const log = serviceLog(config, logRaw);
  const [samples, trains] = [does(config.role, 'engine'), does(config.role, 'trainer')];
  if (samples) refuseUnreachable(config);
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
    const { numThreads, engineShare } = config;
    const { models: cacheDirectory } = dataPaths(config.dataDirectory);
    const modelIds = config.models.map(({ id }) => id);
    const arbiter = new ComputeArbiter();
    const scores = new BaseScores((modelPath) => scoreInChild({ modelPath, numThreads }, log));
    const inference = samples
      ? await openInference(config, {
          scores,
          cacheDirectory,
          cores: arbiter.section('inference', engineShare),
          niceness: trains ? nicenessOfShare(engineShare) : 0,
          log,
        })
      : null;
    cleanups.push(() => inference?.close());
    await inference?.start();
    const modelPaths =
      inference === null ? await servedPaths(config, { cacheDirectory, log }) : (id: string) => inference.pathOf(id);
    const parts = { store, blobs, modelPaths, log };
    if (trains) {
      const metrics = new ServiceMetrics().jobs;
      const workers = await openJobWorkers(config, { ...parts, arbiter, scores, metrics, tracing });
      cleanups.push(() => workers.close());
      cleanups.push(() => workers.stop());
      cleanups.push(await registerTrainer({ ...parts, modelIds }));
      workers.run();
      cleanups.push(store.watchFeed(() => workers.notify()));
    }
    const port = inference === null ? null : await openEnginePort(config, { ...parts, inference });
    cleanups.push(() => port?.close());
    return { engineUrl: port?.url ?? null, modelIds, close: undo };
  } catch (error) {
    await undo();
    throw error;
  }
}
