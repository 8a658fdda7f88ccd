import type { Model, Store } from '@trainyard/store';
import { referenceStep, type TrainingConfig } from '@trainyard/trainer';

import { configFault } from './training-config.ts';

/**
 * Resolves the reference step of a job before it is queued, defaults included, so that the job keeps its
 * weights while it waits.
 * @returns null if the job has none, or if earlier jobs decide it
 * @throws {RequestError} `request.invalid` for a step that cannot exist when the job starts: neither now nor
 * after every unfinished job of the model
 */
export async function resolveReferenceStep(store: Store, model: Model, config: TrainingConfig): Promise<number | null> {
  const numAhead = await countLiveJobs(store, model);
  const latest = (await store.checkpoints.latest(model.id))?.step ?? model.nextStep - 1;
  const isLag = config.klPenaltyStepLag !== null;
  const first = referenceStep(config, latest);
  if (first === null) return null;
  // Earlier jobs move the start, and with it the reference of a lag, unless even after the last of them it is
  // step 0.
  if (isLag && referenceStep(config, model.nextStep - 1 + numAhead) !== first) return null;
  if ((await store.checkpoints.get(model.id, first)) !== null) return first;
  // The base model's weights, for step 0, are always there.
  if (first === 0 && model.warmStart === null) return first;
  if (first >= model.nextStep && first < model.nextStep + numAhead) return first;
  const [field, value] = isLag
    ? (['kl_penalty_step_lag', config.klPenaltyStepLag] as const)
    : (['kl_penalty_reference_step', config.klPenaltyReferenceStep] as const);
  throw configFault(
    field,
    value === null
      ? `The KL penalty compares with step 0 unless \`${field}\` is set, but step 0 was deleted: set it to an existing step`
      : isLag
        ? `\`${field}\` must lead to an existing step, got ${value}: step ${first} was deleted`
        : `\`${field}\` must be a step of the model that exists, below ${model.nextStep + numAhead} when the job starts, got ${value}`,
  );
}

async function countLiveJobs(store: Store, model: Model): Promise<number> {
  const [queued, running] = await Promise.all(
    (['queued', 'running'] as const).map((status) => store.jobs.list({ modelId: model.id, status, limit: 1000 })),
  );
  return (queued?.items.length ?? 0) + (running?.items.length ?? 0);
}
