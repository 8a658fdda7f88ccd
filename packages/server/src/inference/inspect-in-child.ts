import { fileURLToPath } from 'node:url';

import type { OpenEngineOptions } from '../hosts/inference/open-engine.ts';
import { SupervisedHost } from '../hosts/supervised-host.ts';
import type { InspectedModel } from './inspect-model.ts';

/**
 * Looks at a model file in a child process, which is gone when the promise settles.
 *
 * @throws {ServerError} `server.host_failed_to_start`, with the reason: a missing or corrupt file, a full disk
 */
export async function inspectInChild(options: OpenEngineOptions, log: (line: string) => void): Promise<InspectedModel> {
  let inspected: InspectedModel | null = null;
  const host = new SupervisedHost<{ kind: 'shutdown' }, { kind: 'ready' } & InspectedModel>({
    name: 'inspection',
    modulePath: fileURLToPath(new URL('./inspection-host.ts', import.meta.url)),
    options,
    onMessage: (message) => {
      if (message.kind === 'ready') inspected = { served: message.served, memory: message.memory };
    },
    onLost: () => undefined,
    log,
  });
  try {
    await host.start();
  } finally {
    await host.close();
  }
  if (inspected === null) throw new Error('an inspection ended without its result');
  return inspected;
}
