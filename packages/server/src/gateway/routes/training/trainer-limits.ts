import type { ValidationItem } from '@trainyard/protocol';
import type { LoraShape, Store, TrainerLimits } from '@trainyard/store';
import { isTargetSet, type LoraConfig, otherShapes } from '@trainyard/trainer';

import { RequestError } from '../../../seams/faults/request-error.ts';
import { toLoraShapeObject, toTargets } from '../../../training-data/wire/lora.ts';
import type { TrainingQueue } from '../../../seams/contract/backends.ts';
import { trainersOf } from '../../../seams/contract/trained-base-models.ts';

/** Sources of a base model's trainer limits: this process, and trainers of other processes. */
export interface LimitParts {
  readonly store: Pick<Store, 'members'>;
  readonly training: Pick<TrainingQueue, 'baseModels' | 'limits'>;
}

/** @returns null if at least one trainer has no limits, and without a trainer */
export async function trainerLimits({ store, training }: LimitParts, baseModel: string): Promise<TrainerLimits | null> {
  const { baseModels, limits = null } = training;
  const isHere = baseModels === null || baseModels.includes(baseModel);
  if (isHere) return limits;
  const known = trainersOf(await store.members.list()).flatMap((trainer) =>
    trainer.baseModels.filter(({ id }) => id === baseModel),
  );
  return known.every(({ trainerLimits: its }) => its) ? (known[0]?.trainerLimits ?? null) : null;
}

/**
 * Refuses an adapter shape that the trainer does not support: its jobs would fail after all rollouts are
 * done.
 * @param limits null: any shape is supported
 * @param field body member with the shape: `lora` with its members, or a model that has it
 * @throws {RequestError} `request.invalid` with the limit and the value
 */
export function refuseShape(lora: LoraShape, limits: TrainerLimits | null, field: 'lora' | 'model_id'): void {
  if (limits === null) return;
  const { maxRank, alpha, targetSets } = limits;
  const items: ValidationItem[] = [];
  const refuse = (member: string, rule: string, value: unknown): void => {
    const msg =
      field === 'lora'
        ? `Input should be ${rule}: this is the limit of the trainer of this service`
        : `The model has \`lora.${member}\` ${String(value)}, but the trainer of this service supports only ${rule}: register another model`;
    items.push({ loc: ['body', field, ...(field === 'lora' ? [member] : [])], msg, type: 'value_error', input: value });
  };
  if (maxRank !== null && lora.rank > maxRank) refuse('rank', `at most ${maxRank}`, lora.rank);
  if (alpha !== null && lora.alpha !== alpha) refuse('alpha', String(alpha), lora.alpha);
  if (targetSets !== null && !isTargetSet(lora.targets, targetSets)) {
    const sets = targetSets.map((set) => toTargets(set as LoraShape['targets']).join(', '));
    refuse('targets', sets.join('; or '), toTargets(lora.targets).join(', '));
  }
  // A trainer with limits is a server of the Tinker protocol, which has one rank and one scale for all modules.
  const { use_rslora, rank_pattern, alpha_pattern } = toLoraShapeObject(lora);
  const values: Readonly<Record<string, unknown>> = { use_rslora, rank_pattern, alpha_pattern };
  for (const member of otherShapes(lora as LoraConfig))
    refuse(member, 'absent', typeof values[member] === 'boolean' ? true : JSON.stringify(values[member]));
  if (items.length > 0) throw RequestError.invalid(items);
}
