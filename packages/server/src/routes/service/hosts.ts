import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { BackendMember } from '@trainyard/backend';
import type { HostsObject } from '@trainyard/protocol';
import type { NamedStep } from '@trainyard/store';

import { callerOf } from '../../edge/auth.ts';
import type { BaseModel } from '../../contract/base-models.ts';
import { trainedBaseModels } from '../../contract/trained-base-models.ts';
import { SERVICE_VERSION } from '../../service/service-version.ts';
import type { RouteParts } from '../server-parts.ts';

type HostObject = HostsObject['sampling']['hosts'][number];

/**
 * GET /v1/preview/hosts, for admins. How much the service has to do, and the addresses of its parts, are for those of its own entity: the load of a service
 * with several entities is what the others do.
 */
export function hostRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { inference, training, store, tracking, baseModels, operatorEntity, machine } = parts;
  // Without an entity of its own the service is everybody's who has an admin key.
  const isOperator = (request: FastifyRequest) =>
    operatorEntity === null || callerOf(request).entity === operatorEntity;

  app.get('/v1/preview/hosts', { config: { scope: 'admin' } }, async (request): Promise<HostsObject> => ({
    version: SERVICE_VERSION,
    sampling: {
      trouble: await inference.trouble(),
      hosts: await Promise.all(baseModels.all.map((model) => toHostObject(model, isOperator(request)))),
    },
    training: await trainingState(),
    store: { trouble: store.trouble() },
    tracking: tracking === null ? null : { tracker: tracking.name, trouble: tracking.trouble() },
    processes: isOperator(request) ? await processes() : [],
  }));

  /** Processes are members of a service only in a database that they share. */
  async function processes(): Promise<HostsObject['processes']> {
    const members = await store.listMembers();
    if (members.length === 0)
      return [{ role: 'api', url: null, version: SERVICE_VERSION, machine_trouble: machine.trouble }];
    return members.map(({ role, url, version, machineTrouble }) => ({
      role,
      url,
      version,
      machine_trouble: machineTrouble,
    }));
  }

  async function trainingState(): Promise<HostsObject['training']> {
    const trained = await trainedBaseModels(store, training.baseModels);
    const isMissing = trained !== null && trained.size === 0;
    return {
      trouble: training.trouble() ?? (isMissing ? 'no trainer is there' : null),
      base_models: trained && [...trained],
    };
  }

  async function toHostObject(
    { id, contextLength, untrainable = null }: BaseModel,
    seesLoad: boolean,
  ): Promise<HostObject> {
    const model = inference.of(id);
    const members = seesLoad ? (model.members?.() ?? []) : [];
    const loaded = members.flatMap(({ adapters = [] }) => adapters.map(({ digest }) => digest));
    const steps = loaded.length === 0 ? [] : await store.stepsOf(loaded);
    const stats = model.stats();
    const load = (count: number | undefined): number | null => (seesLoad ? (count ?? 0) : null);
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
      num_preemptions: load(stats?.numPreemptions),
      prompt_tokens: load(stats?.promptTokens),
      generated_tokens: load(stats?.generatedTokens),
      prefix_query_tokens: load(stats?.prefixQueryTokens),
      prefix_hit_tokens: load(stats?.prefixHitTokens),
      members: members.map((member) => toMemberObject(member, steps)),
    };
  }
}

/** @param steps of what any member has loaded */
function toMemberObject(member: BackendMember, steps: readonly NamedStep[]): HostObject['members'][number] {
  const { adapters = [] } = member;
  const loaded = steps.flatMap(({ digest, entity, project, name, step }) => {
    const since = adapters.find((adapter) => adapter.digest === digest)?.since;
    return since === undefined
      ? []
      : [{ model: `${entity}/${project}/${name}`, step, since: Math.floor(since / 1000) }];
  });
  return {
    url: member.name,
    kind: member.kind,
    state: member.state,
    trouble: member.trouble,
    version: member.version,
    num_choices: member.numChoices,
    num_adapters: member.numAdapters,
    steps: loaded,
    kv_use: member.kvUse,
    num_requests: member.numRequests,
    num_failures: member.numFailures,
    num_losses: member.numLosses,
    generated_tokens: member.numTokens,
  };
}
