import { cispo } from './cispo.ts';
import { dppo } from './dppo.ts';
import type { PolicyObjective } from './policy-objective.ts';
import { ppo } from './ppo.ts';

/** By their names on the wire (`loss_fn`). */
export const POLICY_OBJECTIVES = { cispo, ppo, dppo } as const satisfies Record<string, PolicyObjective>;

export type LossFunction = keyof typeof POLICY_OBJECTIVES;

export const LOSS_FUNCTIONS = Object.keys(POLICY_OBJECTIVES) as readonly LossFunction[];
