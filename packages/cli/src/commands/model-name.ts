import { UsageError } from '../terminal/command-error.ts';

/** A model of which not all names in front need be said. */
export interface ModelName {
  /** null: that of the key */
  readonly entity: string | null;
  readonly project: string;
  readonly name: string;
}

/**
 * The name of a model, as this program prints it (`ENTITY/PROJECT/NAME`) or shorter.
 *
 * @param flag where it was given
 * @throws {UsageError} for what is no name, and for a single step of a model
 */
export function readModelName(text: string, flag: string, defaultProject: string): ModelName {
  const parts = text.split('/');
  const [name = '', project = defaultProject, entity = null, ...others] = parts.toReversed();
  if (others.length > 0 || parts.includes('') || text.includes(':'))
    throw new UsageError(`${flag} takes NAME, PROJECT/NAME or ENTITY/PROJECT/NAME, got ${JSON.stringify(text)}`);
  return { entity, project, name };
}
