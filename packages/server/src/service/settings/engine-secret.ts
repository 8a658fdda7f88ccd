import { ServerError } from '../../seams/faults/server-error.ts';
import { does, type Role } from '../../seams/contract/role.ts';

/** Variable of the secret that a service's processes share. Not a flag: other users can read command lines. */
const VARIABLE = 'TRAINYARD_ENGINE_SECRET';

/** A shorter one could be guessed from one intercepted request. */
const MIN_CHARACTERS = 32;

/** Secret in the environment, for any role; null without a usable one. */
export function engineSecretOf(environment: Readonly<Record<string, string | undefined>>): string | null {
  const value = environment[VARIABLE] ?? '';
  return value.length >= MIN_CHARACTERS ? value : null;
}

/**
 * Secret between engines and their callers; null for a process that is neither, and for a trainer without
 * one.
 * @throws {ServerError} `server.config_invalid` if it is required, without the value in the message
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
