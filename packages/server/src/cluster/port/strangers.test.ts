import { Socket } from 'node:net';

import { expect, onTestFinished, test, vi } from 'vitest';

import { Strangers } from './strangers.ts';

const MOST = 10;
const PATIENCE_MS = 1_000;

function some(number: number): Socket[] {
  const sockets = Array.from({ length: number }, () => new Socket());
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  return sockets;
}

const numOpen = (sockets: readonly Socket[]) => sockets.filter(({ destroyed }) => !destroyed).length;

test('too many go, the oldest first, and none that has just come', () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const strangers = new Strangers(MOST, PATIENCE_MS);
  const early = some(30);
  for (const socket of early) strangers.add(socket);
  expect(numOpen(early)).toBe(30);
  vi.advanceTimersByTime(PATIENCE_MS);
  const late = some(5);
  for (const socket of late) strangers.add(socket);
  expect(numOpen(early.slice(0, 25))).toBe(0);
  expect(numOpen([...early.slice(25), ...late])).toBe(MOST);
});

test('a connection that has shown the secret stays, however many others come', () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const strangers = new Strangers(MOST, PATIENCE_MS);
  const known = some(20);
  for (const socket of known) {
    strangers.add(socket);
    strangers.remove(socket);
  }
  const others = some(MOST + 1);
  for (const socket of others) strangers.add(socket);
  vi.advanceTimersByTime(PATIENCE_MS);
  strangers.add(some(1)[0]!);
  expect(numOpen(known)).toBe(20);
  expect(numOpen(others)).toBe(MOST - 1);
});
