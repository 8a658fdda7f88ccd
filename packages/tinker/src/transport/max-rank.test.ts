import { expect, test } from 'vitest';

import { TINKER_PROFILES } from '../profiles/tinker-profiles.ts';
import { HOSTED_LIKE, SKYRL_0_3, SKYRL_0_4 } from '../testing/fake-dialect.ts';
import { FakeTinkerServer } from '../testing/fake-tinker-server.ts';
import { instantClock } from '../testing/instant-clock.ts';
import { askMaxRank } from './max-rank.ts';
import { contactServer } from './server-facts.ts';

test.each([
  [SKYRL_0_4, 'skyrl', 24],
  [SKYRL_0_3, 'skyrl', 24],
  [HOSTED_LIKE, 'hosted', null],
] as const)('$0.name reports $2 as its largest rank, and no model remains', async (dialect, profile, expected) => {
  const server = await FakeTinkerServer.start({ ...dialect, maxRank: 24 });
  try {
    const options = { url: server.url, apiKey: dialect.key, baseModel: null, clock: instantClock() };
    const facts = await contactServer({ ...options, profile: TINKER_PROFILES[profile] });
    expect(await askMaxRank(facts, () => undefined)).toBe(expected);
    expect(server.numLoaded).toBe(0);
  } finally {
    await server.close();
  }
});
