import type { TRAINING_FIELDS, ValueOf } from '@trainyard/protocol/fields';
import { cispo } from './cispo.ts';
import { dppo } from './dppo.ts';
import type { PolicyObjective } from './policy-objective.ts';
import { ppo } from './ppo.ts';

/** Values of `loss_fn`. */
export type LossFunction = ValueOf<(typeof TRAINING_FIELDS)['loss_fn']['form']>;

/** A name that is missing here or in `loss_fn` does not compile. */
export const POLICY_OBJECTIVES = { cispo, ppo, dppo } as const satisfies Record<LossFunction, PolicyObjective>;

export const LOSS_FUNCTIONS = Object.keys(POLICY_OBJECTIVES) as readonly LossFunction[];
