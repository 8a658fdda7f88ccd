import type { Store } from '@trainyard/store';

import { ComputeArbiter } from '../hosts/computing/compute-arbiter.ts';
import { nicenessOfShare } from '../hosts/computing/niceness.ts';
import type { TrainingQueue } from '../seams/contract/backends.ts';
import { does } from '../seams/contract/role.ts';
import { Drain } from '../seams/health/drain.ts';
import { ServiceHealth } from '../seams/health/service-health.ts';
import { dataPaths } from '../seams/data/data-directory.ts';
import { openEngineSteps } from '../cluster/open-engine-steps.ts';
import { openEnginePort } from '../cluster/port/open-engine-port.ts';
import { ownNames } from '../seams/network/network-names.ts';
import { BaseScores } from '../hosts/pool/base-scores.ts';
import { startUnloading } from '../hosts/pool/retire-unused.ts';
import { scoreInChild } from '../hosts/pool/score-in-child.ts';
import { registerTrainer } from '../cluster/members/register-trainer.ts';
import { MinuteFigures } from '../seams/metrics/minute-figures.ts';
import { queueFigures } from '../seams/metrics/queue-figures.ts';
import { ServiceMetrics } from '../seams/metrics/service-metrics.ts';
import { METRICS_PORT_SETTING, refuseUnstartable } from './refuse-unstartable.ts';
import type { ServiceConfig } from './settings/config.ts';
import { openJobWorkers } from './parts/job-workers.ts';
import { openMachineWatch } from './machine/machine-watch.ts';
import { listen } from '../seams/network/listen.ts';
import { metricsAccess } from './settings/network-access.ts';
import { createMetricsServer } from './parts/metrics-server.ts';
import { refuseMissingModels } from './settings/model-files.ts';
import { prepareModels } from './parts/prepare-models.ts';
import { fetchHubModels } from './parts/fetch-hub-models.ts';
import { openData } from './parts/open-data.ts';
import { openModelFiles } from './parts/open-model-files.ts';
import { serviceLog } from './parts/service-log.ts';
import { serviceTracing } from './parts/service-tracing.ts';
import { openInference, servedPaths } from './parts/open-inference.ts';

export interface RunningParts {
  /** address of the engine for API processes; null: it samples for none */
  readonly engineUrl: string | null;
  /** base models that it samples from, or whose jobs it takes */
  readonly modelIds: readonly string[];
  /** for example `http://127.0.0.1:9100/metrics`; null unless configured */
  readonly metricsUrl: string | null;
  /** Lets requests in flight end, returns the running job to the queue, and ends all hosts. */
  close(): Promise<void>;
}

/**
 * Starts parts of a service without its HTTP: an engine, whose port API processes call; a trainer, which
 * opens only the port of its metrics and takes jobs from the database; or both on the cores of one machine.
 * @param logRaw receives one line per event; never a secret
 * @throws {ServerError} with a message for the operator: missing or corrupt model, folder in use …
 */
export async function startParts(settings: ServiceConfig, logRaw: (line: string) => void): Promise<RunningParts> {
  const log = serviceLog(settings, logRaw);
  const metrics = new ServiceMetrics(settings.role);
  const [samples, trains] = [does(settings.role, 'engine'), does(settings.role, 'trainer')];
  await refuseUnstartable(settings);
  const given = await fetchHubModels(settings, log);
  refuseMissingModels(given.models);
  const cleanups: (() => unknown)[] = [];
  const undo = async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  };
  try {
    const { store, blobs } = await openData(given, cleanups, log, metrics.data);
    const config = await prepareModels(given, log);
    const tracing = await serviceTracing(config, log);
    cleanups.push(() => tracing?.close());
    const watched = openMachineWatch(config, { metrics, log });
    const { machine } = watched;
    const { numThreads, engineShare } = config;
    const { models: cacheDirectory } = dataPaths(config.dataDirectory);
    const modelIds = config.models.map(({ id }) => id);
    const arbiter = new ComputeArbiter();
    const scores = new BaseScores((modelPath) => scoreInChild({ modelPath, numThreads }, log));
    const { files, watch } = openModelFiles(config, { cleanups, log });
    const inference = samples
      ? await openInference(config, {
          scores,
          files,
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
    const parts = { store, blobs, modelPaths, files, log };
    watch(modelPaths);
    // Undone in reverse: it answers until everything else has ended.
    const metricsServer: { close: (() => Promise<void>) | null } = { close: null };
    cleanups.push(() => metricsServer.close?.());
    let training: Pick<TrainingQueue, 'baseModels' | 'problem'> | null = null;
    if (trains) {
      const engines = await openEngineSteps(config, parts);
      cleanups.push(() => engines.close());
      const { publish } = engines;
      const workers = await openJobWorkers(config, {
        ...parts,
        arbiter,
        scores,
        metrics,
        tracing,
        ...(publish && { publish }),
      });
      ({ training } = workers);
      cleanups.push(() => workers.close());
      cleanups.push(() => workers.stop());
      cleanups.push(await registerTrainer({ ...parts, machine, training: workers.training }));
      workers.run();
      cleanups.push(store.feed.watch(() => workers.notify()));
    }
    const checkpoints = new MinuteFigures(() => store.retention.sum());
    metrics.sources = {
      ...(inference === null ? {} : { inference }),
      training: training ?? { problem: () => null },
      queue: () => queueFigures(store),
      checkpoints: () => checkpoints.read(),
    };
    const drain = new Drain();
    const health = new ServiceHealth({ store, blobs, inference, training, machine, drain });
    metrics.health.source = health;
    const metricsUrl = await openMetrics(config, { store, metrics, health }, metricsServer);
    const port = inference === null ? null : await openEnginePort(config, { ...parts, machine, inference, tracing });
    cleanups.push(() => port?.close());
    if (inference !== null) cleanups.push(startUnloading({ store, inference, log }));
    cleanups.push(() => watched.stop());
    watched.start();
    cleanups.push(() => drain.begin());
    return { engineUrl: port?.url ?? null, modelIds, metricsUrl, close: undo };
  } catch (error) {
    await undo();
    throw error;
  }
}

/** @returns the address of the metrics; null if none is configured */
async function openMetrics(
  config: ServiceConfig,
  parts: {
    store: Store;
    metrics: ServiceMetrics;
    health: ServiceHealth;
  },
  closing: { close: (() => Promise<void>) | null },
): Promise<string | null> {
  const { metricsListen: address, allowedHosts } = config;
  if (address === null) return null;
  const { store, metrics, health } = parts;
  const access = metricsAccess(address, config);
  const server = createMetricsServer({
    store,
    metrics,
    access,
    health,
    allowedHosts: [...ownNames(address.host), ...allowedHosts],
  });
  closing.close = () => server.close();
  return `${await listen(server, address, METRICS_PORT_SETTING)}/metrics`;
}
