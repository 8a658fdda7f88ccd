import { expect, test } from 'vitest';

import { creditChain } from './credit-chain.ts';

const valuesOf = (chain: ReturnType<typeof creditChain>) =>
  Object.fromEntries(chain.map(({ name, value }) => [name, value]));

test('each number of the chain follows from those before it', () => {
  const rewards = [1, 0.5, 0, 0];
  const mean = 0.375;
  const spread = Math.sqrt(rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / 4);
  const advantage = (1 - mean) / spread;
  const chain = valuesOf(creditChain(1, rewards, advantage, { advantage: advantage * 1.077, weight: 0.8557 }));
  expect(chain['group mean']).toBeCloseTo(mean, 12);
  expect(chain['group spread']).toBeCloseTo(spread, 12);
  expect(chain['advantage']).toBeCloseTo((chain['reward']! - chain['group mean']!) / chain['group spread']!, 12);
  expect(chain['used advantage']).toBeCloseTo(chain['advantage']! * chain['× balance']!, 12);
  expect(chain['push per token']).toBeCloseTo(chain['used advantage']! * chain['× weight']!, 12);
});

test('without a balance the chain is shorter, and an unused spread says so', () => {
  const chain = creditChain(1, [1, 0], 0.5, { advantage: 0.5, weight: 1 });
  expect(chain.map(({ name }) => name)).toEqual([
    'reward',
    'group mean',
    'group spread',
    'advantage',
    '× weight',
    'push per token',
  ]);
  expect(chain[2]!.help).toContain('not used');
});
