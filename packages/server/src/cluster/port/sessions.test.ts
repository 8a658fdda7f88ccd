import { expect, test } from 'vitest';

import { Sessions } from './sessions.ts';

const use = (sessions: Sessions, session: string, count: number) =>
  sessions.use({ session, count, digest: '', code: '' });

test('each count is accepted once, in any order, and not if it is too old', () => {
  const sessions = new Sessions();
  const session = sessions.open();
  for (const count of [1, 3, 2]) expect(use(sessions, session, count)).toBe(true);
  for (const count of [1, 2, 3]) expect(use(sessions, session, count)).toBe(false);
  for (let count = 4; count < 40_000; count++) use(sessions, session, count);
  expect(use(sessions, session, 4)).toBe(false);
  expect(use(sessions, session, 40_000)).toBe(true);
});

test('hellos without a following request end no session, however many they are', () => {
  const sessions = new Sessions();
  const [live, begun] = [sessions.open(), sessions.open()];
  expect(use(sessions, live, 1)).toBe(true);
  for (let hello = 0; hello < 10_000; hello++) sessions.open();
  expect(use(sessions, live, 2)).toBe(true);
  expect(use(sessions, begun, 1)).toBe(true);
});

test('a session that was evicted is not restarted: its used counts stay used', () => {
  const sessions = new Sessions();
  const first = sessions.open();
  const waiting = sessions.open();
  expect(use(sessions, waiting, 1)).toBe(true);
  expect(use(sessions, first, 1)).toBe(true);
  expect(use(sessions, waiting, 2)).toBe(true);
  for (let other = 0; other < 1_023; other++) expect(use(sessions, sessions.open(), 1)).toBe(true);
  expect(use(sessions, first, 1)).toBe(false);
  expect(use(sessions, first, 2)).toBe(false);
  expect(use(sessions, waiting, 3)).toBe(true);
});

test('a session of another process, and a name that is made up, are unknown', () => {
  const [sessions, others] = [new Sessions(), new Sessions()];
  const session = sessions.open();
  const [, code] = others.open().split('~');
  for (const name of [
    others.open(),
    `1~${code}`,
    '1~',
    '1',
    '',
    `${session}x`,
    `2${session.slice(1)}`,
    `1e0${session.slice(1)}`,
  ])
    expect(use(sessions, name, 1)).toBe(false);
  expect(use(sessions, session, 1)).toBe(true);
});
