import { randomUUID } from 'node:crypto';

import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { LogTrajectoriesResponse } from '@trainyard/protocol';

import {
  acceptTrajectoryBodies,
  type ReceivedBody,
  type TrajectoryBodyReader,
  withTrajectoryBody,
} from '../../trajectory-bodies/accept-trajectory-bodies.ts';
import type { TrajectoryBody } from '../../trajectory-bodies/trajectory-body.ts';
import { answerOnce, type Completes } from '../../answers/idempotency.ts';
import { removeUnlessNamed } from '../../../seams/data/remove-unless-named.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { policyNames } from '../../forms/exchanges/captured-exchanges.ts';
import { notFound, ownedModel } from '../owned.ts';

type LogRequest = FastifyRequest<{ Params: { model_id: string }; Body: ReceivedBody<'log'> | undefined }>;

/**
 * POST /v1/preview/models/{model_id}/log: stores the trajectories and adds their means to the latest
 * checkpoint.
 */
export function trajectoryLogRoutes(app: FastifyInstance, parts: RouteParts, bodies: TrajectoryBodyReader): void {
  const { store } = parts;
  void app.register(async (scope) => {
    acceptTrajectoryBodies(scope, bodies, 'log');
    scope.post<{ Params: { model_id: string }; Body: ReceivedBody<'log'> | undefined }>(
      '/v1/preview/models/:model_id/log',
      { config: { scope: 'training' }, bodyLimit: parts.limits.previewBodyBytes },
      (request, reply) =>
        withTrajectoryBody(request, (body) =>
          answerOnce(store, request, reply, (completes) => log(request, body, completes)),
        ),
    );
  });

  async function log(
    request: LogRequest,
    body: TrajectoryBody<'log'>,
    completes: Completes,
  ): Promise<LogTrajectoriesResponse> {
    const { fields, numGroups, numTrajectories, numExceptions } = body.summary;
    const model = await ownedModel(request, parts, request.params.model_id);
    const { model_id: named = null } = fields;
    if (named !== null && named !== model.id) {
      const msg = 'Input should be the model of the path, or absent';
      throw RequestError.invalid([{ loc: ['body', 'model_id'], msg, type: 'value_error', input: named.slice(0, 200) }]);
    }
    const answer = { model_id: model.id, num_trajectories: numTrajectories };
    if (numTrajectories === 0) return answer;
    const { split } = fields;
    const blobKey = `logs/${randomUUID()}`;
    const policy = policyNames(model);
    await store.files.announce(blobKey);
    const { metrics, rewards, contents } = await body.store(
      { key: blobKey, policy, checkVocabSize: null, metricsSplit: split },
      null,
    );
    const stored = completes(answer);
    try {
      const recorded = await store.trajectories.recordLog({
        modelId: model.id,
        split,
        blobKey,
        metrics,
        rewards,
        contents,
        numGroups,
        numTrajectories,
        numExceptions,
        ...(stored ? { completes: stored } : {}),
      });
      if (recorded === null) throw notFound('model', model.id, 'model_id');
    } catch (error) {
      await removeUnlessNamed(parts, { key: blobKey, kind: 'blob' }, error);
      throw error;
    }
    return answer;
  }
}
