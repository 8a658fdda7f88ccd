import { expect, test } from 'vitest';
import type { ApiKey } from '@trainyard/store';

import { Sessions } from './sessions.ts';

const DAY_MS = 24 * 3_600_000;

function setUp(change: Partial<ApiKey> = {}) {
  const clock = { now: 1_000_000 };
  const key = { id: 'k', revokedAt: null, expiresAt: null, ...change } as ApiKey;
  const sessions = new Sessions({ getKey: async (id) => (id === key.id ? key : null) }, () => clock.now);
  return { clock, key, sessions };
}

test('a link works for 15 minutes and not a moment longer', () => {
  const { clock, sessions } = setUp();
  const [first, second] = [sessions.makeLink('k'), sessions.makeLink('k')];
  clock.now += 15 * 60_000 - 1;
  expect(sessions.redeem(first.code)).toBe('k');
  clock.now += 1;
  expect(sessions.redeem(second.code)).toBeNull();
});

test('a session lasts 30 days, or as long as its key', async () => {
  const { clock, sessions } = setUp();
  const { token } = sessions.open('k');
  clock.now += 30 * DAY_MS - 1;
  expect(await sessions.find(token)).not.toBeNull();
  clock.now += 1;
  expect(await sessions.find(token)).toBeNull();

  const short = setUp({ expiresAt: 1_000_000 + DAY_MS });
  const session = short.sessions.open('k');
  expect((await short.sessions.find(session.token))?.expiresAt).toBe(1_000_000 + DAY_MS);
  short.clock.now += DAY_MS;
  expect(await short.sessions.find(session.token)).toBeNull();
});

test('of one key the newest hundred stay; those of others are not touched', async () => {
  const { sessions } = setUp();
  const other = sessions.makeLink('other');
  const links = Array.from({ length: 101 }, () => sessions.makeLink('k'));
  expect(sessions.redeem(links[0]!.code)).toBeNull();
  expect(sessions.redeem(links[1]!.code)).toBe('k');
  expect(sessions.redeem(other.code)).toBe('other');
});

test('a code opens no session, and a token is no code', async () => {
  const { sessions } = setUp();
  const { code } = sessions.makeLink('k');
  const { token } = sessions.open('k');
  expect(await sessions.find(code)).toBeNull();
  expect(sessions.redeem(token)).toBeNull();
});
