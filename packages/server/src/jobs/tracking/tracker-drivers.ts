import { ServerError } from '../../seams/faults/server-error.ts';
import { MlflowTracker } from './mlflow-tracker.ts';
import type { RunTracker } from './run-tracker.ts';

/** Trackers by the prefix of their address: `mlflow:http://127.0.0.1:5000`. */
const TRACKER_DRIVERS: Readonly<Record<string, (url: URL) => RunTracker>> = {
  mlflow: (url) => new MlflowTracker(url),
};

/** @throws {ServerError} `server.config_invalid` */
export function openTracker(setting: string): RunTracker {
  const [, name = '', address = ''] = /^([a-z]+):(https?:\/\/.+)$/.exec(setting) ?? [];
  const open = TRACKER_DRIVERS[name];
  if (open === undefined || !URL.canParse(address)) {
    const known = Object.keys(TRACKER_DRIVERS).map((driver) => `${driver}:http://HOST:PORT`);
    throw new ServerError('server.config_invalid', `\`--tracker\` must be ${known.join(' or ')}`);
  }
  return open(new URL(address));
}
