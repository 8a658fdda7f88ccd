import { availableParallelism, freemem, loadavg, totalmem } from 'node:os';

import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { BackendMember, LoadedVersion } from '@trainyard/backend';
import type { HostsObject } from '@trainyard/protocol';
import type { NamedStep } from '@trainyard/store';

import { callerOf } from '../../edge/auth.ts';
import type { BaseModel } from '../../../seams/contract/base-models.ts';
import { trainedBaseModels } from '../../../seams/contract/trained-base-models.ts';
import { SERVICE_VERSION } from '../../../seams/contract/service-version.ts';
import type { RouteParts } from '../../parts/server-parts.ts';

type HostObject = HostsObject['sampling']['hosts'][number];

/**
 * GET /v1/preview/hosts, for admins. Only admins of the service's own entity see its load and the addresses
 * of its parts: in a service with several entities the load reveals the activity of others.
 */
export function hostRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { inference, training, store, tracking, baseModels, operatorEntity, machine } = parts;
  // Without its own entity every admin key counts as the operator's.
  const isOperator = (request: FastifyRequest) =>
    operatorEntity === null || callerOf(request).entity === operatorEntity;

  app.get('/v1/preview/hosts', { config: { scope: 'admin' } }, async (request): Promise<HostsObject> => ({
    version: SERVICE_VERSION,
    sampling: {
      trouble: await inference.problem(),
      hosts: await Promise.all(baseModels.all.map((model) => toHostObject(model, isOperator(request)))),
    },
    training: await trainingState(),
    machine: isOperator(request) ? machineState() : null,
    store: { trouble: store.database.problem() },
    tracking: tracking === null ? null : { tracker: tracking.name, trouble: tracking.problem() },
    processes: isOperator(request) ? await processes() : [],
  }));

  /** Processes are registered only in a shared database. */
  async function processes(): Promise<HostsObject['processes']> {
    const members = await store.members.list();
    if (members.length === 0)
      return [{ role: 'api', url: null, version: SERVICE_VERSION, machine_trouble: machine.problem }];
    return members.map(({ role, url, version, machineTrouble }) => ({
      role,
      url,
      version,
      machine_trouble: machineTrouble,
    }));
  }

  function machineState(): HostsObject['machine'] {
    return {
      num_cores: availableParallelism(),
      load: loadavg()[0] ?? 0,
      memory_bytes: totalmem(),
      free_memory_bytes: freemem(),
      process_bytes: process.memoryUsage.rss(),
      free_disk_bytes: machine.state?.freeDiskBytes ?? null,
      sync_seconds: machine.state?.syncSeconds ?? null,
    };
  }

  async function trainingState(): Promise<HostsObject['training']> {
    const trained = await trainedBaseModels(store, training.baseModels);
    const isMissing = trained !== null && trained.size === 0;
    return {
      trouble: training.problem() ?? (isMissing ? 'no trainer is running' : null),
      base_models: trained && [...trained],
    };
  }

  async function toHostObject(
    { id, contextLength, untrainable = null }: BaseModel,
    showsLoad: boolean,
  ): Promise<HostObject> {
    const model = inference.of(id);
    const members = showsLoad ? (model.members?.() ?? []) : [];
    const own = showsLoad ? (model.adapters?.() ?? []) : [];
    const digests = new Set([...own, ...members.flatMap(versionsOf)].map(({ digest }) => digest));
    const steps = digests.size === 0 ? [] : await store.checkpoints.stepsOf([...digests]);
    const stats = model.stats();
    const load = (count: number | undefined): number | null => (showsLoad ? (count ?? 0) : null);
    return {
      base_model: id,
      max_model_len: contextLength,
      untrainable,
      is_loaded: stats !== null,
      num_requests: load(stats?.numRequests),
      num_running: load(stats?.numRunning),
      num_waiting: load(stats?.numWaiting),
      kv_used_tokens: load(stats?.usedTokens),
      kv_cached_tokens: load(stats?.cachedTokens),
      kv_capacity_tokens: stats?.capacityTokens ?? 0,
      num_adapters: load(stats?.numAdapters),
      steps: loadedSteps(own, steps),
      num_preemptions: load(stats?.numPreemptions),
      prompt_tokens: load(stats?.promptTokens),
      generated_tokens: load(stats?.generatedTokens),
      prefix_query_tokens: load(stats?.prefixQueryTokens),
      prefix_hit_tokens: load(stats?.prefixHitTokens),
      members: members.map((member) => toMemberObject(member, steps)),
    };
  }
}

/** Versions that a member, or one of its servers, has or refuses. */
function versionsOf({ adapters = [], refused = [], members = [] }: BackendMember): readonly { digest: string }[] {
  return [...adapters, ...refused, ...members.flatMap(versionsOf)];
}

/** @param steps names of all versions */
function loadedSteps(versions: readonly LoadedVersion[], steps: readonly NamedStep[]): HostObject['steps'] {
  return namedSteps(versions, steps).map(({ model, step, version: { since } }) => ({
    model,
    step,
    since: Math.floor(since / 1000),
  }));
}

function namedSteps<Version extends { readonly digest: string }>(
  versions: readonly Version[],
  steps: readonly NamedStep[],
): { model: string; step: number; version: Version }[] {
  const byDigest = new Map(versions.map((version) => [version.digest, version]));
  return steps.flatMap(({ digest, entity, project, name, step }) => {
    const version = byDigest.get(digest);
    return version === undefined ? [] : [{ model: `${entity}/${project}/${name}`, step, version }];
  });
}

/** @param steps of all versions loaded by members */
function toMemberObject(member: BackendMember, steps: readonly NamedStep[]): HostObject['members'][number] {
  const { members = [] } = member;
  return { ...toServerObject(member, steps), members: members.map((server) => toServerObject(server, steps)) };
}

function toServerObject(
  member: BackendMember,
  steps: readonly NamedStep[],
): HostObject['members'][number]['members'][number] {
  const { adapters = [], refused = [] } = member;
  return {
    url: member.name,
    kind: member.kind,
    state: member.state,
    trouble: member.trouble,
    version: member.version,
    num_choices: member.numChoices,
    num_adapters: member.numAdapters,
    steps: loadedSteps(adapters, steps),
    refused_steps: namedSteps(refused, steps).map(({ model, step, version: { reason, until } }) => ({
      model,
      step,
      reason,
      until: Math.ceil(until / 1000),
    })),
    kv_use: member.kvUse,
    num_requests: member.numRequests,
    num_failures: member.numFailures,
    num_losses: member.numLosses,
    generated_tokens: member.numTokens,
  };
}
