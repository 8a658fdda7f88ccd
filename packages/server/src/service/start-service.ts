import { setTimeout as delay } from 'node:timers/promises';

import type { FastifyInstance } from 'fastify';

import type { Store } from '@trainyard/store';
import { logprobsModeOf } from '@trainyard/protocol/fields';

import { checkBodyThread } from '../gateway/trajectory-bodies/body-thread-client.ts';
import { ComputeArbiter, type ComputeSections } from '../hosts/computing/compute-arbiter.ts';
import { nicenessOfShare } from '../hosts/computing/niceness.ts';
import type { ServiceConfig } from './settings/config.ts';
import { createServer } from '../gateway/create-server.ts';
import { announceService, dataPaths } from '../seams/data/data-directory.ts';
import { refuseUnstartable } from './refuse-unstartable.ts';
import { ensureServiceKey, type ServiceKey } from './settings/service-key.ts';
import { GuideLibrary, type GuideSource } from '../gateway/guides/guide-library.ts';
import { readDashboard } from '../gateway/pages/dashboard-files.ts';
import { linkPath } from '../gateway/routes/service/session.ts';
import { ownNames } from '../seams/network/network-names.ts';
import { BaseScores } from '../hosts/pool/base-scores.ts';
import { followSteps } from '../hosts/pool/follow-steps.ts';
import { OwnSteps, stepPublisher } from '../hosts/pool/publish-step.ts';
import { startUnloading } from '../hosts/pool/retire-unused.ts';
import { scoreInChild } from '../hosts/pool/score-in-child.ts';
import { remoteJobWorkers, openJobWorkers, type JobWorkers } from './parts/job-workers.ts';
import { listen } from '../seams/network/listen.ts';
import { metricsAccess } from './settings/network-access.ts';
import { refuseMissingModels } from './settings/model-files.ts';
import { prepareModels } from './parts/prepare-models.ts';
import { fetchHubModels } from './parts/fetch-hub-models.ts';
import { refusedHub } from './parts/hub-bases.ts';
import { openPulls } from './parts/open-pulls.ts';
import { openData } from './parts/open-data.ts';
import { openModelFiles } from './parts/open-model-files.ts';
import { serviceLog } from './parts/service-log.ts';
import { serviceTracing } from './parts/service-tracing.ts';
import { openSampling } from './parts/open-sampling.ts';
import { does, needsModelFiles } from '../seams/contract/role.ts';
import { Drain } from '../seams/health/drain.ts';
import { RunMirror } from '../jobs/tracking/run-mirror.ts';
import { openTracker } from '../jobs/tracking/tracker-drivers.ts';
import { openMachineWatch } from './machine/machine-watch.ts';
import { CheckpointKeeper } from '../jobs/checkpoints/checkpoint-keeper.ts';
import { orphanRules, Upkeep } from '../seams/data/upkeep.ts';
import { ContentRefresh } from '../training-data/stored/refresh-contents.ts';
import { registerApi } from '../cluster/members/register-api.ts';
import { registerTrainer } from '../cluster/members/register-trainer.ts';
import { ServiceMetrics } from '../seams/metrics/service-metrics.ts';

/** Interval at which a drain closes idle connections. */
const DRAIN_POLL_MS = 25;
/** Time for sending the errors of requests that outlasted the drain. */
const LAST_ANSWERS_MS = 2_000;

export interface ServiceExtras {
  /** Divides the cores; measurements replace it. */
  readonly arbiter?: ComputeSections;
  /** Folder of the built dashboard. Default null: without one. */
  readonly dashboardDirectory?: string | null;
  /** Command that the dashboard suggests for training a small task, as typed here. Default null: none. */
  readonly demoCommand?: string | null;
  /** Documents at `/guides`. Default null: none. */
  readonly guides?: GuideSource | null;
}

export interface RunningService {
  /** for example `http://127.0.0.1:8420` */
  readonly url: string;
  /** key of the service: newly created, configured, or read from the key file; null if unavailable */
  readonly apiKey: ServiceKey | null;
  readonly keyFile: string;
  /**
   * one-time URL that opens the dashboard signed in with that key, valid for 15 minutes; null without a
   * dashboard, or without that key
   */
  readonly signInUrl: string | null;
  /** all served base models, the default first; empty while no engine is available */
  readonly modelIds: readonly string[];
  /**
   * Reports that it is ending, stops taking requests, lets those in flight end, returns the running job to
   * the queue, and ends all hosts.
   * @param options.graceMs time between the first two, in which requests are answered as before, so that load
   * balancers see `/readyz` first. Default 0
   */
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

/**
 * Starts the whole service in this process and its child processes.
 * @param logRaw receives one line per event; never a secret
 * @throws {ServerError} with a message for the operator: port in use, missing or corrupt model, folder in use
 * …
 */
export async function startService(
  settings: ServiceConfig,
  logRaw: (line: string) => void,
  { arbiter = new ComputeArbiter(), dashboardDirectory = null, demoCommand = null, guides = null }: ServiceExtras = {},
): Promise<RunningService> {
  const log = serviceLog(settings, logRaw);
  await refuseUnstartable(settings);
  const given = needsModelFiles(settings.role) ? await fetchHubModels(settings, log) : settings;
  if (needsModelFiles(given.role)) refuseMissingModels(given.models);
  const cleanups: (() => unknown)[] = [];
  const undo = async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  };
  try {
    const metrics = new ServiceMetrics(given.role);
    const { store, blobs } = await openData(given, cleanups, log, metrics.data);
    const config = needsModelFiles(given.role) ? await prepareModels(given, log) : given;
    const tracing = await serviceTracing(config, log);
    cleanups.push(() => tracing?.close());
    const paths = dataPaths(config.dataDirectory);
    const apiKey = await ensureServiceKey(store, config, { keyFile: paths.keyFile, log });

    const { numThreads, engineShare, role } = config;
    const modelFiles = openModelFiles(config, { cleanups, log });
    const { files, watch } = modelFiles;
    const trains = does(role, 'trainer');
    const scores = new BaseScores((modelPath) => scoreInChild({ modelPath, numThreads }, log));
    const { inference, modelPaths, addBaseModel } = await openSampling(config, {
      store,
      scores,
      files,
      cacheDirectory: paths.models,
      cores: arbiter.section('inference', engineShare),
      niceness: trains ? nicenessOfShare(engineShare) : 0,
      log,
    });
    // Undone in reverse: drain, stop the workers, end the hosts, and with them the requests that outlasted
    // the drain.
    let http: ClosingServer | null = null;
    let workers: JobWorkers | null = null;
    cleanups.push(() => http?.finish());
    cleanups.push(() => Promise.all([inference.close(), workers?.close()]));
    const parts = { store, blobs, modelPaths, files, log };
    const publish = stepPublisher(blobs, inference);
    const ownSteps = new OwnSteps();
    const opening = trains
      ? openJobWorkers(config, {
          ...parts,
          arbiter,
          scores,
          metrics,
          tracing,
          publish: ownSteps.remembering(publish),
        })
      : remoteJobWorkers(parts);
    // Wait for all, so that nothing is undone before it settles.
    const [started, opened, checked] = await Promise.allSettled([
      inference.start(),
      opening,
      checkBodyThread(blobs, log),
    ]);
    if (opened.status === 'rejected') throw opened.reason;
    workers = opened.value;
    for (const part of [started, checked]) if (part.status === 'rejected') throw part.reason;
    for (const { id, untrainable = null } of inference.models)
      if (untrainable !== null)
        log(`warning: the base model ${id} is for sampling only and cannot be trained: ${untrainable}`);
    const { training, exports, imports } = workers;
    const servedIds = () => inference.models.map(({ id }) => id);
    const pulls =
      addBaseModel === null || config.hubAccess.refusal !== null
        ? null
        : openPulls(config, {
            store,
            servedIds,
            addBaseModel,
            modelFiles,
            workers,
            log,
          });
    cleanups.push(() => pulls?.stop());
    const tracking =
      config.tracker === null ? null : new RunMirror({ store, tracker: openTracker(config.tracker), log });
    const dashboard = dashboardDirectory === null ? null : await readDashboard(dashboardDirectory, demoCommand);
    const watched = openMachineWatch(config, { metrics, log });
    const { disk, machine } = watched;
    const { trajectoryDays, trustsClock } = config;
    const orphans = orphanRules(config);
    const keeper = new CheckpointKeeper({
      store,
      blobs,
      policy: config.keepCheckpoints,
      binMs: orphans.binMs,
      retire: (digest) => inference.retire(digest),
      log,
    });
    const upkeep = new Upkeep({
      store,
      blobs,
      trajectoryDays,
      orphans,
      keeper,
      trustsClock,
      log,
    });
    const drain = new Drain();
    const server = createServer({
      store,
      machine,
      drain,
      outageMs: config.outageSeconds * 1_000,
      dashboard,
      guides: guides === null ? null : new GuideLibrary(guides),
      hub: pulls?.bases ?? refusedHub(config.hubAccess, servedIds),
      tracking,
      tracing,
      blobs,
      inference,
      training,
      exports,
      imports,
      log,
      maxLogprobs: config.maxLogprobs,
      logprobsMode: logprobsModeOf(config.logprobsMode),
      hasReasoningContent: config.reasoningContent === 'on',
      keepsChoiceRecords: config.choiceRecords === 'on',
      keepsAnswers: config.storeResponsesMs !== null,
      trainingDataDirectory: config.trainingDataDirectory,
      operatorEntity: config.entity,
      keepPolicy: config.keepCheckpoints,
      notices: () => upkeep.notices,
      metrics,
      metricsAccess: metricsAccess(config, config),
      allowedHosts: [...ownNames(config.host), ...config.allowedHosts],
      allowedOrigins: config.allowedOrigins,
      limits: {
        bodyTimeoutMs: config.bodyTimeoutMs,
        minBodyBytesPerSecond: config.minBodyRate,
        readerTimeoutMs: config.readerTimeoutMs,
      },
    });
    cleanups.push(() => workers?.stop());
    server.server.keepAliveTimeout = config.keepAliveSeconds * 1_000;
    const url = await listen(server, config);
    try {
      announceService(config.dataDirectory, urlOnThisMachine(url));
    } catch (error) {
      if (!disk.isDiskFull) throw error;
      log('the disk is full, so commands on this machine need --url', { level: 'warn' });
    }
    server.server.on('connection', machine.sawConnection);
    http = new ClosingServer(server);
    cleanups.push(() => http?.drain(config.drainTimeoutMs));
    let printEnding = async () => {};
    // A database file has only one service, and no other process to notify.
    if (config.database.kind === 'postgres') {
      const membership = await registerApi({ store, url, capacity: config.maxRequests, machine, drain, log });
      cleanups.push(() => membership.close());
      printEnding = () => membership.report();
      if (trains) cleanups.push(await registerTrainer({ ...parts, machine, training }));
    }
    workers.run();
    await pulls?.start();
    if (needsModelFiles(config.role)) watch(modelPaths);
    cleanups.push(
      store.feed.watch(() => {
        workers?.notify();
        pulls?.notify();
      }),
    );
    tracking?.start();
    cleanups.push(() => tracking?.stop());
    cleanups.push(() => upkeep.stop());
    upkeep.start();
    const contents = new ContentRefresh({ store, blobs, log });
    cleanups.push(() => contents.stop());
    contents.start();
    cleanups.push(startUnloading({ store, inference, log }));
    // Remote trainers reach engines only through ports.
    if (config.database.kind === 'postgres' && does(role, 'engine'))
      cleanups.push(followSteps({ store, publish, isOwn: (digest) => ownSteps.has(digest), log }));
    cleanups.push(() => watched.stop());
    watched.start();

    return {
      url,
      apiKey,
      keyFile: paths.keyFile,
      signInUrl: dashboard === null ? null : await signInUrl(url, apiKey, store),
      modelIds: inference.models.map(({ id }) => id),
      close: async ({ graceMs = 0 } = {}) => {
        drain.begin();
        // Not awaited: an unavailable database takes longer than the grace.
        void printEnding();
        await delay(graceMs);
        await undo();
      },
    };
  } catch (error) {
    await undo();
    throw error;
  }
}

async function signInUrl(url: string, key: ServiceKey | null, store: Store): Promise<string | null> {
  const caller = key === null ? null : await store.keys.verify(key.secret);
  return caller === null
    ? null
    : urlOnThisMachine(url) + linkPath((await store.signIns.createLink(caller.keyId)).secret);
}

/** Shutdown of HTTP: no new connections, then the answers in flight, then remaining connections. */
class ClosingServer {
  readonly #server: FastifyInstance;
  #closed: Promise<unknown> | null = null;
  #isClosed = false;

  constructor(server: FastifyInstance) {
    this.#server = server;
  }

  /** Refuses new connections at once, and waits up to `timeoutMs` for the answers in flight. */
  async drain(timeoutMs: number): Promise<void> {
    this.#closed ??= this.#server.close().finally(() => (this.#isClosed = true));
    const deadline = performance.now() + timeoutMs;
    while (!this.#isClosed && performance.now() < deadline) {
      // Clients keep connections open for the next request; idle ones are not waited for.
      this.#server.server.closeIdleConnections();
      await new Promise((resolve) => setTimeout(resolve, DRAIN_POLL_MS));
    }
  }

  /**
   * Call it after sampling has ended: requests that outlasted the drain get their error before their
   * connections close.
   */
  async finish(): Promise<void> {
    await this.drain(LAST_ANSWERS_MS);
    this.#server.server.closeAllConnections();
    await this.#closed;
  }
}

/** A service that listens on every address is available on the loopback one. */
function urlOnThisMachine(url: string): string {
  return url.replace(/\/\/(?:0\.0\.0\.0|\[::\])(?=[:/]|$)/, '//127.0.0.1');
}
