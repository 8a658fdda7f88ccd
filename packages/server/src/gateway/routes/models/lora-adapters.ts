import { randomUUID } from 'node:crypto';

import type { FastifyInstance } from 'fastify';
import {
  type LoadLoraAdapterRequest,
  LoadLoraAdapterRequestSchema,
  LORA_ADAPTERS_PROJECT,
  type UnloadLoraAdapterRequest,
  UnloadLoraAdapterRequestSchema,
} from '@trainyard/protocol';
import type { Model } from '@trainyard/store';

import { callerOf } from '../../edge/auth.ts';
import { isAdapterName, resolveImportedAdapter } from '../../../seams/contract/resolve-imported-adapter.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { conflict, unsupported } from '../../forms/shared/conflict.ts';
import { removeFiles } from '../files.ts';
import { retireAdapters } from './retire-adapters.ts';
import { notFound } from '../owned.ts';

/** POST /v1/load_lora_adapter and /v1/unload_lora_adapter: an imported adapter under a client-chosen name. */
export function loraAdapterRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store, baseModels } = parts;

  app.post<{ Body: LoadLoraAdapterRequest }>(
    '/v1/load_lora_adapter',
    { config: { scope: 'training' }, schema: { body: LoadLoraAdapterRequestSchema } },
    async (request, reply) => {
      const { lora_name: name, lora_path: path, load_inplace: isInPlace = false } = request.body;
      if (!isAdapterName(path))
        throw unsupported(
          'lora_path',
          'it must name an imported adapter, `adapter:ID`; upload the files through `/v1/preview/adapters`',
        );
      const { entity, entityId } = callerOf(request);
      const adapter = await resolveImportedAdapter(store, { name: path, entityId, param: 'lora_path' });
      const { id: baseModel } = baseModels.under(adapter, { field: 'lora_path', name: path });
      const { lora, directoryKey, digest } = adapter;
      const known = await store.models.find(entity, LORA_ADAPTERS_PROJECT, name);
      if (known !== null) {
        if (!isInPlace)
          throw conflict(
            'lora_name',
            `The adapter \`${name}\` is already loaded: unload it, or send \`load_inplace: true\``,
          );
        await unload(known);
      } else await refuseAmbiguousName(entity, name);
      const result = await store.models.create({
        id: randomUUID(),
        entityId,
        project: LORA_ADAPTERS_PROJECT,
        name,
        baseModel,
        lora,
        warmStart: { kind: 'directory', source: path, directoryKey, digest },
      });
      if (result.kind !== 'created')
        throw conflict('lora_name', `The adapter \`${name}\` was loaded by another request at the same time`);
      return reply.type('text/plain; charset=utf-8').send(`Success: LoRA adapter '${name}' added successfully.`);
    },
  );

  app.post<{ Body: UnloadLoraAdapterRequest }>(
    '/v1/unload_lora_adapter',
    { config: { scope: 'training' }, schema: { body: UnloadLoraAdapterRequestSchema } },
    async (request, reply) => {
      const { lora_name: name } = request.body;
      const model = await store.models.find(callerOf(request).entity, LORA_ADAPTERS_PROJECT, name);
      if (model === null) throw notFound('adapter', name, 'lora_name');
      await unload(model);
      return reply.type('text/plain; charset=utf-8').send(`Success: LoRA adapter '${name}' removed successfully.`);
    },
  );

  /** Refuses models with trained checkpoints, which would be lost. @throws {RequestError} `request.conflict` */
  async function unload(model: Model): Promise<void> {
    const latest = await store.checkpoints.latest(model.id);
    const { items: jobs } = await store.jobs.list({ modelId: model.id, limit: 1 });
    if ((latest?.step ?? 0) > 0 || jobs.length > 0)
      throw conflict(
        'lora_name',
        `The adapter \`${model.name}\` is or was being trained: delete the model through \`/v1/preview/models/${model.id}\``,
      );
    const deleted = await store.models.delete(model.id);
    if (deleted === null) return;
    parts.resolvedModels.clear();
    retireAdapters(parts, deleted);
    await removeFiles(parts, deleted);
  }

  /** Clients use bare names for adapters. @throws {RequestError} `request.conflict` */
  async function refuseAmbiguousName(entity: string, name: string): Promise<void> {
    if (baseModels.find(name) !== null) throw conflict('lora_name', `\`${name}\` is a base model`);
    const found = await store.models.findByName(entity, name);
    if (found.kind !== 'none')
      throw new RequestError(
        'request.conflict',
        `\`${name}\` is already used by a model in another project. Choose another name`,
        {
          param: 'lora_name',
        },
      );
  }
}
