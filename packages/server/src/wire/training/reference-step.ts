import type { Model, Store } from '@trainyard/store';
import type { TrainingConfig } from '@trainyard/trainer';

import { configFault } from './training-config.ts';

/**
 * Refuses a reference step that cannot exist when the job starts: neither now nor after every job of the model that is still to end.
 *
 * @throws {RequestError} `request.invalid`
 */
export async function checkReferenceStep(store: Store, model: Model, config: TrainingConfig): Promise<void> {
  const step = config.klPenaltyReferenceStep;
  if (step === null || (step === 0 && model.warmStart === null)) return;
  if ((await store.getCheckpoint(model.id, step)) !== null) return;
  const [queued, running] = await Promise.all(
    (['queued', 'running'] as const).map((status) => store.listJobs({ modelId: model.id, status, limit: 1000 })),
  );
  const numLive = (queued?.items.length ?? 0) + (running?.items.length ?? 0);
  if (step >= model.nextStep && step < model.nextStep + numLive) return;
  throw configFault(
    'kl_penalty_reference_step',
    `\`kl_penalty_reference_step\` must be a step of the model that exists, below ${model.nextStep + numLive} when the job starts, got ${step}`,
  );
}
