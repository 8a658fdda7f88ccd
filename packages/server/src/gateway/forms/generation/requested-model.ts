import type { FastifyRequest } from 'fastify';

import { callerOf } from '../../edge/auth.ts';
import { parseModelName, type ResolvedModel, resolveModelName } from '../../../seams/contract/model-names.ts';
import type { BaseModel } from '../../../seams/contract/base-models.ts';
import type { RouteParts } from '../../parts/server-parts.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Base model of the request's model; null until its name is resolved. */
    baseModel: BaseModel | null;
  }
}

/**
 * Resolves the model that a request names, for its caller. Later refusals use its base model.
 * @throws {RequestError} as `resolveModelName`
 */
export async function requestedModel(
  request: FastifyRequest,
  requested: string | null | undefined,
  { store, baseModels, resolvedModels, versionUse }: RouteParts,
): Promise<ResolvedModel> {
  const { entity, entityId } = callerOf(request);
  const { value: model } = await resolvedModels.read(JSON.stringify([entityId, requested ?? '']), () =>
    resolveModelName(store, { requested, entity, entityId, baseModels }),
  );
  request.baseModel = model.base;
  const isNamed = parseModelName(requested ?? '')?.step != null;
  versionUse.begin(model, isNamed, (act) => request.end.onEnd(act));
  return model;
}
