import { largestRank, type LoraConfig } from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';
import type { LearnerCapabilities, LearnerSession } from './learner-session.ts';

export interface LearnerNeeds {
  readonly loss: string;
  readonly lora: LoraConfig;
  /** The loss has a gradient of entropies. */
  readonly usesEntropies: boolean;
  readonly reference: LearnerCapabilities['reference'];
}

/** Each kind includes those before it. */
const REFERENCES: readonly LearnerCapabilities['reference'][] = ['none', 'base', 'versions'];

/** An adapter can be on exactly these layers. */
export function isTargetSet(targets: readonly string[], sets: readonly (readonly string[])[]): boolean {
  return sets.some((set) => set.length === targets.length && targets.every((target) => set.includes(target)));
}

/** Members of `lora`, by their names on the wire, that make modules differ from `rank` and alpha / rank. */
export function otherShapes({ isRankStabilised = false, rankPattern = {}, alphaPattern = {} }: Partial<LoraConfig>) {
  const has = { use_rslora: isRankStabilised, rank_pattern: isSet(rankPattern), alpha_pattern: isSet(alphaPattern) };
  return (Object.keys(has) as (keyof typeof has)[]).filter((member) => has[member]);
}

const isSet = (pattern: object): boolean => Object.keys(pattern).length > 0;

/** @throws {TrainerError} `trainer.config_invalid` with the unsupported setting and the supported values */
export function requireCapabilities(needs: LearnerNeeds, { capabilities }: Pick<LearnerSession, 'capabilities'>): void {
  const { losses, targets, targetSets, maxRank, alpha, hasOwnShapes, entropies, reference } = capabilities;
  const refuse = (message: string): never => {
    throw new TrainerError('trainer.config_invalid', message);
  };
  if (losses !== 'any' && !losses.includes(needs.loss))
    refuse(`\`loss_fn\` must be one of ${losses.join(', ')} on this learner, got ${needs.loss}`);
  const missing = needs.lora.targets.filter((target) => !targets.includes(target));
  if (missing.length > 0)
    refuse(
      `\`lora\` has layers that this learner cannot adapt: ${missing.join(', ')}; it supports ${targets.join(', ')}`,
    );
  if (targetSets !== 'any' && !isTargetSet(needs.lora.targets, targetSets))
    refuse(
      `\`lora.targets\` must be ${targetSets.map((set) => set.join(', ')).join('; or ')} on this learner, got ${needs.lora.targets.join(', ')}`,
    );
  if (alpha !== null && needs.lora.alpha !== alpha)
    refuse(`\`lora.alpha\` must be ${alpha} on this learner, got ${needs.lora.alpha}: create the model with it`);
  if (largestRank(needs.lora) > maxRank)
    refuse(`\`lora\` has rank ${largestRank(needs.lora)}, this learner supports at most ${maxRank}`);
  const others = hasOwnShapes ? [] : otherShapes(needs.lora);
  if (others.length > 0)
    refuse(
      `${others.map((member) => `\`lora.${member}\``).join(', ')} must be absent on this learner: all its modules have one rank and the scale alpha / rank`,
    );
  if (needs.usesEntropies && entropies !== 'gradients')
    refuse('`entropy_coef` must be 0 on this learner: it computes no entropy gradient');
  if (REFERENCES.indexOf(needs.reference) > REFERENCES.indexOf(reference))
    refuse(
      reference === 'none'
        ? '`kl_penalty_coef` must be 0 on this learner: it computes no reference'
        : 'the KL reference must be the base model on this learner: remove `kl_penalty_reference_step` and `kl_penalty_step_lag`',
    );
}
