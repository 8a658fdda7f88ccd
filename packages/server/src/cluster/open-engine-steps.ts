import type { Store } from '@trainyard/store';

import type { PublishStep } from '../seams/contract/backends.ts';
import { RequestCapacity } from '../hosts/pool/request-capacity.ts';
import { RemoteEngines } from './pool/remote-engines.ts';
import { EngineSecret } from './wire/engine-secret.ts';

const NO_SECRET =
  'engines load new steps by their first requests: this trainer has no TRAINYARD_ENGINE_SECRET; give it that of the engines, and they load each step before its job ends';

/** Connection of a trainer to the engines of its service. */
export interface EngineSteps {
  /** Undefined if the trainer has no secret. */
  readonly publish: PublishStep | undefined;
  close(): Promise<void>;
}

/** Opens the connection by which a trainer asks engines to load new steps. @throws {StoreError} */
export async function openEngineSteps(
  { engineSecret }: { readonly engineSecret: string | null },
  { store, log }: { readonly store: Store; readonly log: (line: string) => void },
): Promise<EngineSteps> {
  if (engineSecret === null) {
    log(NO_SECRET);
    return { publish: undefined, close: async () => undefined };
  }
  const secret = new EngineSecret(engineSecret);
  // It samples nothing.
  const engines = new RemoteEngines({ store, secret, capacity: new RequestCapacity(0), defaultModel: null, log });
  await engines.start();
  return {
    publish: (baseModel, step, signal) => engines.publish(baseModel, { ...step, path: null }, signal),
    close: () => engines.close(),
  };
}
