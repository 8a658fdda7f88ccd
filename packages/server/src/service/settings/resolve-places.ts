import { join } from 'node:path';

import { addressProblem, type BlobLocation, type StoreLocation } from '@trainyard/store/places';

import { does, type Role } from '../../seams/contract/role.ts';
import { dataPaths } from '../../seams/data/data-directory.ts';
import { settingFault } from './setting-fault.ts';
import type { ConfigSources } from './read-settings.ts';
import { settingFlag, type SettingName, type SettingValues } from './setting-table.ts';
import { METRICS_LISTEN } from './tables/operation.ts';

/** PostgreSQL if `--database` names one, else a file in the data folder. @throws {ServerError} `server.config_invalid` */
export function resolveDatabase(
  dataDirectory: string,
  { database: url, databaseConnections: maxConnections }: SettingValues,
  given: ReadonlySet<SettingName>,
  environment: ConfigSources['environment'],
): StoreLocation {
  if (url === null) {
    if (given.has('databaseConnections'))
      throw settingFault(`--database-connections ${maxConnections} requires --database`);
    return { kind: 'sqlite', path: dataPaths(dataDirectory).database };
  }
  const problem = addressProblem(url, environment);
  if (problem !== null) throw settingFault(`the address of the database (--database) ${problem}`);
  return { kind: 'postgres', url, maxConnections };
}

/** Null: blobs are in the data folder. @throws {ServerError} `server.config_invalid` */
export function resolveBucket(
  dataDirectory: string,
  { bucket: url, bucketRegion: region, bucketCacheMegabytes: megabytes }: SettingValues,
  given: ReadonlySet<SettingName>,
): Extract<BlobLocation, { kind: 's3' }> | null {
  if (url !== null) {
    const cacheDirectory = join(dataDirectory, 'bucket-cache');
    return { kind: 's3', url, region, cacheDirectory, cacheBytes: megabytes * 1e6 };
  }
  const lone = (['bucketRegion', 'bucketCacheMegabytes'] as const).find((name) => given.has(name));
  if (lone !== undefined) throw settingFault(`${settingFlag(lone)} requires --bucket`);
  return null;
}

/** Address of the metrics of a process without the role `api`. @throws {ServerError} `server.config_invalid` */
export function resolveMetricsListen(
  role: Role,
  text: string | null,
): { readonly host: string; readonly port: number } | null {
  if (text === null) return null;
  const [, host = '127.0.0.1', port] = METRICS_LISTEN.exec(text) ?? [];
  if (does(role, 'api'))
    throw settingFault(`--metrics-listen is ${text}, but role ${role} serves /metrics on its main port: remove it`);
  if (Number(port) > 65_535) throw settingFault(`--metrics-listen is ${text}, but the largest port is 65535`);
  return { host: host.replaceAll(/[[\]]/g, ''), port: Number(port) };
}
