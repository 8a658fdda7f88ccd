import { fileURLToPath } from 'node:url';

import { ComputeArbiter } from '../hosts/computing/compute-arbiter.ts';
import { EmbeddedInference } from '../hosts/pool/embedded-inference.ts';
import { InferencePool } from '../hosts/pool/inference-pool.ts';
import { RequestCapacity } from '../hosts/pool/request-capacity.ts';

const MODEL = 'instant';
/** The service's default. */
export const MAX_REQUESTS = 2048;

/** The model `instant` in its own text host, started: see `instant-host.ts`. */
export async function openInstantPool(log: (line: string) => void): Promise<InferencePool> {
  const capacity = new RequestCapacity(MAX_REQUESTS);
  const inference = new InferencePool({
    models: [{ id: MODEL, served: null, bytes: 1 }],
    open: (_id, onIdle) =>
      new EmbeddedInference({
        name: 'text',
        host: { modelId: MODEL, modelPath: '', maxRequests: MAX_REQUESTS, driver: { name: 'instant', settings: null } },
        modulePath: fileURLToPath(new URL('./instant-host.ts', import.meta.url)),
        capacity,
        onIdle,
        arbiter: new ComputeArbiter(),
        share: 1,
        log,
      }),
    budgetBytes: 1,
    capacity,
    log,
  });
  await inference.start();
  return inference;
}
