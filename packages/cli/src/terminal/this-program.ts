import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** This runs from the repository, whose scripts the published package does not have. */
const IS_REPOSITORY = existsSync(join(import.meta.dirname, '../../../../scripts/bootstrap.mjs'));

/** The command that starts a service, as it can be typed here. */
export const START = IS_REPOSITORY ? 'npm start' : 'trainyard serve';

/** The script of npm where this program has it; null in the package. */
export function npmScript(name: string): string | null {
  return IS_REPOSITORY ? `npm run ${name}` : null;
}
