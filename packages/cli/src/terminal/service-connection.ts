import type { Trainyard } from '@trainyard/sdk';
import {
  dataPaths,
  findRunningService,
  readKeyFile,
  resolveConfig,
  type ServiceConfig,
} from '@trainyard/server/settings';
import type { Command } from 'commander';

import { attentiveClient } from './attentive-client.ts';
import { UsageError } from './command-error.ts';

/** Values of the options from {@link addServiceOptions}. */
export interface ServiceOptions {
  readonly url?: string;
  readonly apiKey?: string;
  readonly dataDir?: string;
}

export interface JsonOption {
  readonly json?: true;
}

/**
 * Adds the options of every command that uses a running service.
 *
 * @param json output of `--json`; without it there is no such option
 */
export function addServiceOptions(command: Command, json?: string): Command {
  if (json !== undefined) command.option('--json', `print JSON instead: ${json}`);
  return command
    .option('--url <URL>', SERVICE_URL_HELP)
    .option('--api-key <KEY>', 'API key (TRAINYARD_API_KEY, or the key of a service on this machine)')
    .option('--data-dir <FOLDER>', 'data folder of a service on this machine, for its key (.trainyard)');
}

/** Help of an option that names a service. */
export const SERVICE_URL_HELP =
  'URL of the service (TRAINYARD_BASE_URL unless --data-dir is given; else the service running on the data folder; else http://127.0.0.1:8420/v1, or as host and port are set)';

export interface ServiceConnection {
  /** URL of the API, ending in `/v1` */
  readonly baseUrl: string;
  readonly apiKey: string;
}

/**
 * Address of the service, and the key for it.
 *
 * @throws {UsageError} for an invalid URL, or without a key
 * @throws {ServerError} `server.config_invalid`
 */
export function serviceConnection(options: ServiceOptions): ServiceConnection {
  const { dataDir, apiKey: named } = options;
  const config = resolveConfig({
    flags: { ...(dataDir === undefined ? {} : { dataDir }), ...(named === undefined ? {} : { apiKey: named }) },
    environment: process.env,
    configPath: null,
  });
  const { keyFile } = dataPaths(config.dataDirectory);
  const { secret, problem } = config.apiKey === null ? readKeyFile(keyFile) : { secret: config.apiKey, problem: null };
  if (secret === null)
    throw new UsageError(problem ?? `no API key: pass --api-key or set TRAINYARD_API_KEY (no file ${keyFile})`);
  return { baseUrl: serviceUrl(options, config), apiKey: secret };
}

/** A client of that service. @throws as {@link serviceConnection} */
export function serviceClient(options: ServiceOptions): Trainyard {
  return attentiveClient(serviceConnection(options));
}

/**
 * URL of the selected service: named, or running on the data folder, or derived from the settings. @throws
 * {UsageError}
 */
export function serviceUrl(options: Pick<ServiceOptions, 'url' | 'dataDir'>, config: ServiceConfig): string {
  return namedUrl(options) ?? checkedUrl(urlOnFolder(config) ?? `http://${config.host}:${config.port}/v1`, '--url');
}

/**
 * URL named by the option, or by the environment if no option names a data folder; null without either.
 * @throws {UsageError}
 */
export function namedUrl({ url, dataDir }: Pick<ServiceOptions, 'url' | 'dataDir'>): string | null {
  if (url !== undefined) return checkedUrl(url, '--url');
  const variable = process.env['TRAINYARD_BASE_URL'] ?? '';
  return variable === '' || dataDir !== undefined ? null : checkedUrl(variable, 'TRAINYARD_BASE_URL');
}

/**
 * URL of the service that is named, or runs on the data folder; null if there is none, or it is still
 * starting. @throws {UsageError}
 */
export function serviceUrlAtHand(options: Pick<ServiceOptions, 'url' | 'dataDir'>): string | null {
  const { dataDir } = options;
  const flags = dataDir === undefined ? {} : { dataDir };
  return namedUrl(options) ?? urlOnFolder(resolveConfig({ flags, environment: process.env, configPath: null }));
}

function urlOnFolder({ dataDirectory }: ServiceConfig): string | null {
  const running = findRunningService(dataDirectory);
  return running === null || running.url === null ? null : `${running.url}/v1`;
}

/** URL of the API; one without a path gets `/v1`. @param from source of the URL @throws {UsageError} */
function checkedUrl(text: string, from: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new UsageError(`${from} must be an http or https URL such as http://127.0.0.1:8420/v1, got ${text}`);
  // These parts would not reach the service. The message repeats neither a password nor the code of a sign-in
  // link.
  if (url.username + url.password + url.search + url.hash !== '')
    throw new UsageError(`${from} must not have a user, query or fragment; use ${url.origin}${url.pathname}`);
  return url.pathname === '/' ? `${url.origin}/v1` : text.replace(/\/+$/, '');
}
