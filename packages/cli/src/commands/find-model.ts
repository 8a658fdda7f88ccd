import type { ModelDetailsObject, Trainyard } from '@trainyard/sdk';

import { CommandError } from '../terminal/command-error.ts';

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
  if (model === undefined)
    throw new CommandError(`there is no trained model ${requested}; "trainyard models list" lists them`);
  if (others.length > 0)
    throw new CommandError(
      `${found.length} models are called ${requested}: name one of ${found.map(fullNameOf).join(', ')}`,
    );
  return model;
}
