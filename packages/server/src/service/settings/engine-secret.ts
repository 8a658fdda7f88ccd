import { ServerError } from '../../seams/faults/server-error.ts';
import { does, type Role } from '../../seams/contract/role.ts';

/** Where the secret stands that the processes of a service share: never on a command line, which others on the machine read. */
const VARIABLE = 'TRAINYARD_ENGINE_SECRET';

/** Below this many characters it could be found out from one request that somebody heard. */
const MIN_CHARACTERS = 32;

/** The secret of the environment, whatever the role; null where there is none that would do. */
export function engineSecretOf(environment: Readonly<Record<string, string | undefined>>): string | null {
  const value = environment[VARIABLE] ?? '';
  return value.length >= MIN_CHARACTERS ? value : null;
}

/**
 * The secret that engines and those who ask them show each other; null for a process that does neither, and for a trainer that has none.
 *
 * @throws {ServerError} `server.config_invalid` for one that needs it, without the value in the message
 */
export function readEngineSecret(role: Role, environment: Readonly<Record<string, string | undefined>>): string | null {
  if (does(role, 'api') && does(role, 'engine')) return null;
  const known = engineSecretOf(environment);
  if (known !== null) return known;
  const value = environment[VARIABLE] ?? '';
  if (role === 'trainer' && value === '') return null;
  const why = does(role, 'engine')
    ? 'opens a port for other processes'
    : role === 'trainer'
      ? 'asks engines to load new steps'
      : `uses remote engines (role ${role.replace('api', 'api,engine')} samples in this process)`;
  throw new ServerError(
    'server.config_invalid',
    `role ${role} ${why}, but the environment variable ${VARIABLE} ${value === '' ? 'is not set' : `has ${value.length} characters`}: set the same value of at least ${MIN_CHARACTERS} characters in all processes of the service, for example from "openssl rand -hex 32"`,
  );
}
