import { dataPaths } from '../../seams/data/data-directory.ts';
import type { RemoteTrainerOptions } from '../../hosts/process/messages.ts';
import type { ServiceConfig } from '../settings/config.ts';

/** Options of the trainer host for a remote trainer; null: this machine trains. */
export function remoteTrainerOptions({
  trainer,
  dataDirectory,
}: Pick<ServiceConfig, 'trainer' | 'dataDirectory'>): RemoteTrainerOptions | null {
  if (trainer === null) return null;
  const { url, profile, baseModel, timeoutMs } = trainer;
  return { url, profile, baseModel, timeoutMs, stateDirectory: dataPaths(dataDirectory).trainer };
}
