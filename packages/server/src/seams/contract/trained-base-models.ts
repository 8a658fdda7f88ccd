import { largestRank, type LoraConfig, TRAINABLE_ARCHITECTURES } from '@trainyard/trainer';
import type { LoraShape, Member, Store } from '@trainyard/store';
import { RequestError } from '../faults/request-error.ts';
import type { BaseModel } from './base-models.ts';

/** Ids of the base models whose jobs running trainers take, in this process or another; null: any. */
export type TrainedBaseModels = ReadonlySet<string> | null;

export function trainersOf(members: readonly Member[]): Member[] {
  return members.filter(({ role, isDraining }) => role === 'trainer' && !isDraining);
}

/** @param own base models of this process's workers; null: any */
export async function trainedBaseModels(
  store: Pick<Store, 'members'>,
  own: readonly string[] | null,
): Promise<TrainedBaseModels> {
  if (own === null) return null;
  const trainers = trainersOf(await store.members.list());
  return new Set([...own, ...trainers.flatMap(({ baseModels }) => baseModels.map(({ id }) => id))]);
}

/**
 * Refuses an untrainable base model: its job would fail after all rollouts are done.
 * @param field body field that names it
 * @throws {RequestError} `request.invalid`, with the reason and the architectures that can be trained
 */
export function refuseUntrainable({ id, untrainable = null }: BaseModel, field: 'base_model' | 'model_id'): void {
  if (untrainable === null) return;
  const remedy = field === 'base_model' ? '; send `sampling_only: true` to register a model for sampling only' : '';
  throw RequestError.invalid([
    {
      loc: ['body', field],
      msg: `The base model \`${id}\` cannot be trained: ${untrainable}. Trainable architectures: ${TRAINABLE_ARCHITECTURES.join(', ')}${remedy}`,
      type: 'value_error',
    },
  ]);
}

/**
 * Refuses an adapter rank that sampling does not support: the job would train, and its first request fail.
 * @throws {RequestError} `request.invalid`, for `lora.rank` or `lora.rank_pattern`
 */
export function refuseRank({ id, maxLoraRank = null }: BaseModel, lora: LoraShape): void {
  const rank = largestRank(lora as LoraConfig);
  if (maxLoraRank === null || rank <= maxLoraRank) return;
  const member = lora.rank > maxLoraRank ? 'rank' : 'rank_pattern';
  throw RequestError.invalid([
    {
      loc: ['body', 'lora', member],
      msg: `\`lora.${member}\` must be at most ${maxLoraRank} for the base model \`${id}\`, got ${rank}: this is the limit of the vLLM servers (their flag --max-lora-rank)`,
      type: 'value_error',
    },
  ]);
}
