import type { FastifyInstance } from 'fastify';
import type { BackendMember } from '@trainyard/backend';
import type { HostsObject } from '@trainyard/protocol';

import type { BaseModel } from '../../contract/base-models.ts';
import { trainedBaseModels } from '../../contract/trained-base-models.ts';
import { SERVICE_VERSION } from '../../service/service-version.ts';
import type { RouteParts } from '../server-parts.ts';

/** GET /v1/preview/hosts: of the whole service, so for admins. */
export function hostRoutes(
  app: FastifyInstance,
  { inference, training, store, tracking, baseModels }: RouteParts,
): void {
  app.get('/v1/preview/hosts', { config: { scope: 'admin' } }, async (): Promise<HostsObject> => ({
    version: SERVICE_VERSION,
    sampling: { trouble: await inference.trouble(), hosts: baseModels.all.map(toHostObject) },
    training: await trainingState(),
    store: { trouble: store.trouble() },
    tracking: tracking === null ? null : { tracker: tracking.name, trouble: tracking.trouble() },
  }));

  async function trainingState(): Promise<HostsObject['training']> {
    const trained = await trainedBaseModels(store, training.baseModels);
    const isMissing = trained !== null && trained.size === 0;
    return {
      trouble: (await training.trouble()) ?? (isMissing ? 'no trainer is there' : null),
      base_models: trained && [...trained],
    };
  }

  function toHostObject({ id, contextLength }: BaseModel): HostsObject['sampling']['hosts'][number] {
    const model = inference.of(id);
    const stats = model.stats();
    return {
      base_model: id,
      max_model_len: contextLength,
      is_loaded: stats !== null,
      num_requests: stats?.numRequests ?? 0,
      num_running: stats?.numRunning ?? 0,
      num_waiting: stats?.numWaiting ?? 0,
      kv_used_tokens: stats?.usedTokens ?? 0,
      kv_cached_tokens: stats?.cachedTokens ?? 0,
      kv_capacity_tokens: stats?.capacityTokens ?? 0,
      num_adapters: stats?.numAdapters ?? 0,
      num_preemptions: stats?.numPreemptions ?? 0,
      prompt_tokens: stats?.promptTokens ?? 0,
      generated_tokens: stats?.generatedTokens ?? 0,
      prefix_query_tokens: stats?.prefixQueryTokens ?? 0,
      prefix_hit_tokens: stats?.prefixHitTokens ?? 0,
      members: (model.members?.() ?? []).map(toMemberObject),
    };
  }
}

function toMemberObject(member: BackendMember): HostsObject['sampling']['hosts'][number]['members'][number] {
  return {
    url: member.name,
    kind: member.kind,
    state: member.state,
    trouble: member.trouble,
    version: member.version,
    num_choices: member.numChoices,
    num_adapters: member.numAdapters,
    kv_use: member.kvUse,
    num_requests: member.numRequests,
    num_failures: member.numFailures,
    num_losses: member.numLosses,
    generated_tokens: member.numTokens,
  };
}
