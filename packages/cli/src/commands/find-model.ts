import { type ModelDetailsObject, type Trainyard, TrainyardApiError } from '@trainyard/sdk';

import { CommandError } from '../terminal/command-error.ts';

/** Help of the argument of {@link findTrainedModel}. */
export const MODEL_HELP = 'NAME, PROJECT/NAME, ENTITY/PROJECT/NAME, or an id';

/** `entity/project/name`. */
export function fullNameOf({ entity, project, name }: ModelDetailsObject): string {
  return `${entity}/${project}/${name}`;
}

/** Full names of all models by id. */
export async function modelNames(client: Trainyard): Promise<Map<string, string>> {
  const models = await allModels(client).toArray();
  return new Map(models.map((model) => [model.id, fullNameOf(model)]));
}

/** All models, archived ones included, in pages of the maximum size. */
function allModels(client: Trainyard, query: { readonly project?: string } = {}) {
  return client.models.list({ ...query, limit: 100, archived: 'included' });
}

/**
 * Finds a trained model by its id, or by its name with as many prefixes as make it unique; ignores a `:stepN`
 * suffix.
 *
 * @throws {CommandError} if there is none, or several
 */
export async function findTrainedModel(client: Trainyard, requested: string): Promise<ModelDetailsObject> {
  const wanted = requested.replace(/:step\d+$/, '');
  const found: ModelDetailsObject[] = [];
  for await (const model of allModels(client)) {
    const { id, project, name } = model;
    if ([id, name, `${project}/${name}`, fullNameOf(model)].includes(wanted)) found.push(model);
  }
  const [model, ...others] = found;
  if (model === undefined) throw new CommandError(`no trained model ${requested}; "trainyard models list" lists them`);
  if (others.length > 0)
    throw new CommandError(
      `${found.length} models are called ${requested}: choose one of ${found.map(fullNameOf).join(', ')}`,
    );
  return model;
}

/** True if there is such a model. @param entity default: any that the key may read */
export async function isModel(
  client: Trainyard,
  { entity, project, name }: { entity: string | null; project: string; name: string },
): Promise<boolean> {
  for await (const model of allModels(client, { project }))
    if (model.name === name && (entity === null || model.entity === entity)) return true;
  return false;
}

/** A project and a name, and optionally a step; may also be the name of a base model. */
const IN_PROJECT = /^[^/]+\/[^/]+?(:step\d+)?$/;

/**
 * Converts a name to the one the API samples by: PROJECT/NAME gets its entity as a prefix.
 *
 * @throws {CommandError} if several match; {TrainyardApiError} if there is none
 */
export async function servedNameOf(client: Trainyard, requested: string): Promise<string> {
  const match = IN_PROJECT.exec(requested);
  if (match === null) return requested;
  try {
    return (await client.servedModels.retrieve(requested)).id;
  } catch (error) {
    if (!(error instanceof TrainyardApiError) || error.code !== 'request.unknown_model') throw error;
    const [, step = ''] = match;
    return `${fullNameOf(await findTrainedModel(client, requested))}${step}`;
  }
}
