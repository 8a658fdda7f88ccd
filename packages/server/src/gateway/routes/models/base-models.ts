import type { FastifyInstance } from 'fastify';
import {
  type BaseModelList,
  type BaseModelObject,
  type FetchBaseModelRequest,
  FetchBaseModelRequestSchema,
} from '@trainyard/protocol';

import type { HubBase } from '../../../seams/contract/hub-bases.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import { callerOf } from '../../edge/auth.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { originOf } from '../job-origin.ts';
import { notFound } from '../owned.ts';

const PATH = '/v1/preview/base-models';

/** GET and POST /v1/preview/base-models, and POST /v1/preview/base-models/cancel. */
export function baseModelRoutes(app: FastifyInstance, { baseModels, hub }: RouteParts): void {
  const options = { config: { scope: 'training' }, schema: { body: FetchBaseModelRequestSchema } } as const;

  app.get(PATH, { config: { scope: 'training' } }, async (): Promise<BaseModelList> => {
    const fetched = new Map((hub?.list() ?? []).map((base) => [base.id, base]));
    const served = baseModels.all.map(({ id }) => toObject(fetched.get(id) ?? servedBase(id)));
    const others = [...fetched.values()].filter(({ status }) => status !== 'served').map(toObject);
    return { object: 'list', data: [...served, ...others] };
  });

  app.post<{ Body: FetchBaseModelRequest }>(PATH, options, async (request): Promise<BaseModelObject> => {
    const { base_model: id } = request.body;
    if (hub === null) return toObject(servedBase(baseModels.named(id).id));
    if (baseModels.find(id) === null)
      await hub.request(id, { entityId: callerOf(request).entityId, origin: originOf(request) });
    return toObject(hub.list().find((base) => base.id === id) ?? servedBase(id));
  });

  app.post<{ Body: FetchBaseModelRequest }>(`${PATH}/cancel`, options, async (request): Promise<BaseModelObject> => {
    const { base_model: id } = request.body;
    const isCancelled = (await hub?.cancel(id)) ?? false;
    const base = hub?.list().find((one) => one.id === id);
    if (base === undefined) throw notFound('base model', id, 'base_model');
    if (isCancelled) return toObject(base);
    throw new RequestError('request.job_ended', `The base model \`${id}\` is not being fetched: it is ${base.status}`);
  });
}

function servedBase(id: string): BaseOfSettings {
  return {
    id,
    status: 'served',
    jobId: null,
    doneBytes: null,
    totalBytes: null,
    remainingSeconds: null,
    errorMessage: null,
  };
}

type BaseOfSettings = Omit<HubBase, 'jobId'> & { readonly jobId: string | null };

function toObject(base: BaseOfSettings): BaseModelObject {
  return {
    id: base.id,
    status: base.status,
    job_id: base.jobId,
    done_bytes: base.doneBytes,
    total_bytes: base.totalBytes,
    remaining_seconds: base.remainingSeconds === null ? null : Math.ceil(base.remainingSeconds),
    error_message: base.errorMessage,
  };
}
