import { expect, it } from 'vitest';
import { LINEAR_NAMES, type LoraConfig } from '@trainyard/transformer';
import type { LearnerCapabilities } from './learner-session.ts';
import { requireCapabilities, type LearnerNeeds } from './require-capabilities.ts';

const ALL: LearnerCapabilities = {
  losses: 'any',
  targets: LINEAR_NAMES,
  targetSets: 'any',
  hasOwnShapes: true,
  maxRank: 64,
  alpha: null,
  entropies: 'gradients',
  reference: 'versions',
  replay: true,
  maxKeptRows: 1,
  initialScale: 1,
};
const LORA: LoraConfig = { rank: 8, alpha: 16, targets: ['q', 'up'], initSeed: 0 };
const NEEDS: LearnerNeeds = { loss: 'cispo', lora: LORA, usesEntropies: true, reference: 'versions' };

it('a learner with all capabilities passes, and so does one with the required ones', () => {
  const fits = (needs: LearnerNeeds, capabilities: LearnerCapabilities) =>
    expect(() => requireCapabilities(needs, { capabilities })).not.toThrow();
  fits(NEEDS, ALL);
  const plain = { ...NEEDS, usesEntropies: false, reference: 'none' } as const;
  const little: LearnerCapabilities = {
    losses: ['cispo'],
    targets: ['q', 'up'],
    targetSets: [['q'], ['up', 'q']],
    maxRank: 8,
    hasOwnShapes: false,
    alpha: 16,
    entropies: 'none',
    reference: 'none',
    replay: false,
    maxKeptRows: 1,
    initialScale: 1,
  };
  fits(plain, little);
  fits({ ...plain, reference: 'base' }, { ...little, reference: 'base' });
});

it.each<[Partial<LearnerCapabilities>, string]>([
  [{ losses: ['ppo', 'cross_entropy'] }, '`loss_fn` must be one of ppo, cross_entropy on this learner, got cispo'],
  [{ targets: ['q', 'k'] }, 'has layers that this learner cannot adapt: up; it supports q, k'],
  [{ targetSets: [['q'], ['q', 'up', 'down']] }, '`lora.targets` must be q; or q, up, down on this learner, got q, up'],
  [{ alpha: 32 }, '`lora.alpha` must be 32 on this learner, got 16'],
  [{ maxRank: 4 }, '`lora` has rank 8, this learner supports at most 4'],
  [{ entropies: 'values' }, '`entropy_coef` must be 0'],
  [{ reference: 'base' }, 'remove `kl_penalty_reference_step` and `kl_penalty_step_lag`'],
  [{ reference: 'none' }, '`kl_penalty_coef` must be 0'],
])('%j is refused with the setting and the supported values', (lacking, message) => {
  expect(() => requireCapabilities(NEEDS, { capabilities: { ...ALL, ...lacking } })).toThrow(
    expect.objectContaining({ code: 'trainer.config_invalid', message: expect.stringContaining(message) as string }),
  );
});
