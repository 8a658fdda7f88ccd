import { UsageError } from '../terminal/command-error.ts';

/** Name of a model with optional prefixes. */
export interface ModelName {
  /** null: the key's entity */
  readonly entity: string | null;
  readonly project: string;
  readonly name: string;
}

/**
 * Parses the name of a model, as printed by this program (`ENTITY/PROJECT/NAME`) or shorter.
 *
 * @param flag source of the name
 * @throws {UsageError} for an invalid name, and for a single step of a model
 */
export function readModelName(text: string, flag: string, defaultProject: string): ModelName {
  const parts = text.split('/');
  const [name = '', project = defaultProject, entity = null, ...others] = parts.toReversed();
  if (others.length > 0 || parts.includes('') || text.includes(':'))
    throw new UsageError(`${flag} takes NAME, PROJECT/NAME or ENTITY/PROJECT/NAME, got ${JSON.stringify(text)}`);
  return { entity, project, name };
}
