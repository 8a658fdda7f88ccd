import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

import { ServerError } from '../seams/faults/server-error.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Hub and cache, from the variables that all clients of the hub share. */
export interface HubSettings {
  /** Without a slash at its end. */
  readonly endpoint: string;
  /** Null: no token. */
  readonly token: string | null;
  readonly isOffline: boolean;
  /** Absolute path of the folder with `models--ORG--NAME`. */
  readonly cacheDirectory: string;
}

const DEFAULT_ENDPOINT = 'https://huggingface.co';

/**
 * Reads `HF_ENDPOINT`, `HF_TOKEN` (or the file of `hf auth login`), `HF_HUB_OFFLINE`, `HF_HUB_CACHE` and `HF_HOME`.
 * @throws {ServerError} `server.config_invalid` for an endpoint that is no address
 */
export function readHubSettings(environment: Environment): HubSettings {
  const home = homeOf(environment);
  const cache = environment['HF_HUB_CACHE'] || environment['HUGGINGFACE_HUB_CACHE'] || join(home, 'hub');
  return {
    endpoint: endpointOf(environment),
    token: tokenOf(environment, home),
    isOffline: ['HF_HUB_OFFLINE', 'TRANSFORMERS_OFFLINE'].some((name) => isOn(environment[name])),
    cacheDirectory: resolve(withHome(cache)),
  };
}

function homeOf(environment: Environment): string {
  const { HF_HOME: own, XDG_CACHE_HOME: caches } = environment;
  return resolve(withHome(own || join(caches || '~/.cache', 'huggingface')));
}

function withHome(path: string): string {
  return path.replace(/^~(?=\/|$)/, homedir());
}

function endpointOf({ HF_ENDPOINT: given }: Environment): string {
  const text = (given || DEFAULT_ENDPOINT).replace(/\/+$/, '');
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text;
  throw new ServerError(
    'server.config_invalid',
    `HF_ENDPOINT must be an address with http:// or https://, got ${JSON.stringify(text)}`,
  );
}

function tokenOf(environment: Environment, home: string): string | null {
  const given = environment['HF_TOKEN'] || environment['HUGGING_FACE_HUB_TOKEN'];
  if (given) return given.trim();
  if (isOn(environment['HF_HUB_DISABLE_IMPLICIT_TOKEN'])) return null;
  const path = environment['HF_TOKEN_PATH'] || join(home, 'token');
  return existsSync(path) ? readFileSync(path, 'utf8').trim() || null : null;
}

function isOn(value: string | undefined): boolean {
  return ['1', 'true', 'yes', 'on'].includes((value ?? '').toLowerCase());
}
