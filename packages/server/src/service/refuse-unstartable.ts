import { does } from '../seams/contract/role.ts';
import { refuseTakenDataDirectory } from '../seams/data/data-directory.ts';
import { refuseUnreachable } from '../cluster/port/open-engine-port.ts';
import type { ServiceConfig } from './settings/config.ts';
import { refuseTakenPort } from '../seams/network/listen.ts';
import { refuseOpenNetwork } from './settings/network-access.ts';

/**
 * Checks for failures of a start in advance, before a model is fetched or loaded for it: a data folder or a
 * port that another process has, and an address that needs `--allow-network`.
 * @throws {ServerError} `server.config_invalid`, `server.data_directory_unusable`, `server.port_in_use`
 */
export async function refuseUnstartable(config: ServiceConfig): Promise<void> {
  const { role, metricsListen } = config;
  const answersHttp = does(role, 'api');
  const hasEnginePort = does(role, 'engine') && !answersHttp;
  if (answersHttp) refuseOpenNetwork(config, config);
  if (hasEnginePort) refuseUnreachable(config);
  if (metricsListen !== null) refuseOpenNetwork(metricsListen, config);
  refuseTakenDataDirectory(config.dataDirectory);
  if (answersHttp || hasEnginePort) await refuseTakenPort(config);
  if (metricsListen !== null) await refuseTakenPort(metricsListen, METRICS_PORT_SETTING);
}

/** Name of that port's setting in messages. */
export const METRICS_PORT_SETTING = '--metrics-listen';
