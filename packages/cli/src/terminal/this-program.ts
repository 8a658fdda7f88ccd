import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** True in the repository, whose scripts the published package lacks. */
const IS_REPOSITORY = existsSync(join(import.meta.dirname, '../../../../scripts/bootstrap.mjs'));

/** Command that starts a service in this installation. */
export const START = IS_REPOSITORY ? 'npm start' : 'trainyard serve';

/** Command for an npm script; null in the package. */
export function npmScript(name: string): string | null {
  return IS_REPOSITORY ? `npm run ${name}` : null;
}
