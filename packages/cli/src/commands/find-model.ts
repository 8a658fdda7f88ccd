import { type ModelDetailsObject, type Trainyard, TrainyardApiError } from '@trainyard/sdk';

import { CommandError } from '../terminal/command-error.ts';

/** Help of an argument that {@link findTrainedModel} reads. */
export const MODEL_HELP = 'NAME, PROJECT/NAME, ENTITY/PROJECT/NAME, or an id';

/** `entity/project/name`. */
export function fullNameOf({ entity, project, name }: ModelDetailsObject): string {
  return `${entity}/${project}/${name}`;
}

/**
 * The trained model that is meant: by its id, or by its name with as much in front as tells it from others; a `:stepN` behind it is passed over.
 *
 * @throws {CommandError} when there is none, or several
 */
export async function findTrainedModel(client: Trainyard, requested: string): Promise<ModelDetailsObject> {
  const wanted = requested.replace(/:step\d+$/, '');
  const found: ModelDetailsObject[] = [];
  for await (const model of client.models.list({ limit: 100 })) {
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

/** Whether there is such a model. @param entity default: any that the key may read */
export async function isModel(
  client: Trainyard,
  { entity, project, name }: { entity: string | null; project: string; name: string },
): Promise<boolean> {
  for await (const model of client.models.list({ project, limit: 100 }))
    if (model.name === name && (entity === null || model.entity === entity)) return true;
  return false;
}

/** A project and a name, and perhaps a step; a base model may be called like that, too. */
const IN_PROJECT = /^[^/]+\/[^/]+?(:step\d+)?$/;

/**
 * The name that a request samples by, as the API takes it: what is called PROJECT/NAME here has its entity in front.
 *
 * @throws {CommandError} when several are called so; {TrainyardApiError} when there is none
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
