import type { FastifyInstance } from 'fastify';
import { type UsageGroupObject, type UsageListObject, type UsageQuery, UsageQuerySchema } from '@trainyard/protocol';
import type { UsageGroup } from '@trainyard/store';

import { callerOf } from '../../edge/auth.ts';
import type { RouteParts } from '../../parts/server-parts.ts';

const DEFAULT_SECONDS = 30 * 24 * 3600;
const MAX_GROUPS = 10_000;

/** GET /v1/preview/usage. */
export function usageRoutes(app: FastifyInstance, { store, clock }: RouteParts): void {
  app.get<{ Querystring: UsageQuery }>(
    '/v1/preview/usage',
    { config: { scope: 'training' }, schema: { querystring: UsageQuerySchema } },
    async (request): Promise<UsageListObject> => {
      const { entityId } = callerOf(request);
      // Includes usage of the current second.
      const { to = Math.floor(clock() / 1000) + 1, from = Math.max(0, to - DEFAULT_SECONDS), by = [] } = request.query;
      const { project, key, model, kind, fold_steps: foldsSteps } = request.query;
      const parts = [by].flat();
      const keys = parts.includes('key') || key !== undefined ? await store.keys.list(entityId) : [];
      const groups = await store.usage.group({
        entityId,
        by: parts,
        from: from * 1000,
        to: to * 1000,
        limit: MAX_GROUPS + 1,
        ...(foldsSteps === undefined ? {} : { foldsSteps }),
        project: project === '' ? null : project,
        keyIds: key === undefined ? undefined : [key, ...keys.filter(({ name }) => name === key).map(({ id }) => id)],
        modelText: model,
        kinds: kind === undefined ? undefined : [kind].flat(),
      });
      const names = new Map(keys.map(({ id, name }) => [id, name]));
      return {
        object: 'list',
        from,
        to,
        data: groups.slice(0, MAX_GROUPS).map((group) => toGroupObject(group, names)),
        has_more: groups.length > MAX_GROUPS,
      };
    },
  );
}

function toGroupObject(group: UsageGroup, keyNames: ReadonlyMap<string, string>): UsageGroupObject {
  const { project, keyId, model, numSteps, kind, day } = group;
  return {
    ...(project === undefined ? {} : { project }),
    ...(keyId === undefined ? {} : { key_id: keyId, key_name: keyNames.get(keyId) ?? null }),
    ...(model === undefined ? {} : { model }),
    ...(numSteps === undefined ? {} : { num_steps: numSteps }),
    ...(kind === undefined ? {} : { kind }),
    ...(day === undefined ? {} : { day: new Date(day).toISOString().slice(0, 10) }),
    num_requests: group.numRequests,
    prompt_tokens: group.promptTokens,
    completion_tokens: group.completionTokens,
  };
}
