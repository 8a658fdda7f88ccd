import { Trainyard } from '@trainyard/sdk';

import { ensureModel, libraryDirectory, ONEDNN, wheelSource } from '../../../scripts/lib/model-source.mjs';
import { ownService } from '../../../scripts/own-service.ts';
import { publishAdapter } from '../../inference.ts';
import { settingsEnvironment, shownVariables } from '../../settings-environment.ts';
import { localPortOf, openClient } from '../server-under-test.ts';
import { ROOT } from './model-files.ts';
import type { Log, Peer } from './peer.ts';

/** Values of `--precision`; each is a peer. */
export const PRECISIONS = ['exact', 'strict', 'fast', 'bf16'] as const;
export type Precision = (typeof PRECISIONS)[number];

/** A new service of this repository on the default model. @param settings `name=value` */
export function trainyardPeer(precision: Precision, settings: readonly string[], log: Log): Peer {
  const given = settings.find((setting) => setting.startsWith('precision='));
  if (given !== undefined)
    throw new Error(`--settings ${given}: use --peer ${given.slice('precision='.length)} instead`);
  return {
    name: precision,
    isOurs: true,
    install: async () => void (await serviceSettings(precision, settings, log)),
    start: async (numAdapters) => {
      const environment = await serviceSettings(precision, settings, log);
      const service = await ownService({ environment });
      try {
        const trainyard = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
        const model = (await trainyard.servedModels.list()).data.find(({ parent }) => parent === null)!.id;
        const adapters: string[] = [];
        while (adapters.length < numAdapters) adapters.push(await publishAdapter(trainyard, model));
        return {
          name: precision,
          client: openClient(service.url, service.apiKey),
          model,
          adapters,
          localPort: localPortOf(service.url),
          settings: shownVariables(environment),
          stop: () => service.close(),
        };
      } catch (error) {
        await service.close();
        throw error;
      }
    },
  };
}

/** Settings as environment variables; fetches the library of `bf16` if it is missing (54 MB). */
export async function serviceSettings(
  precision: Precision,
  settings: readonly string[],
  log: Log,
): Promise<Record<string, string>> {
  const environment = { TRAINYARD_PRECISION: precision, ...settingsEnvironment(settings) };
  if (precision !== 'bf16') return environment;
  const given = process.env['TRAINYARD_ONEDNN'];
  const directory = libraryDirectory(process.env, ROOT);
  const library = given ?? (await ensureModel({ directory, sources: [wheelSource()], model: ONEDNN, log }));
  return { ...environment, TRAINYARD_ONEDNN: library };
}
