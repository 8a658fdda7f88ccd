import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, getPriority } from 'node:os';

import { expect, test } from 'vitest';

import { lowerPriority, nicenessOfShare } from './niceness.ts';

test.each([
  [0.3, 4],
  [0.7, 0],
  [0.5, 0],
  [0.05, 13],
  [0.95, 0],
])('a share of %d is niceness %d', (share, niceness) => {
  expect(nicenessOfShare(share)).toBe(niceness);
});

test('a process can be given a lower priority, and a missing process is returned as a reason', async () => {
  const child = spawn(process.execPath, ['--eval', 'process.stdin.resume()'], { stdio: ['pipe', 'ignore', 'ignore'] });
  const before = getPriority(child.pid!);
  expect(lowerPriority(child.pid!, 0)).toBeNull();
  expect(getPriority(child.pid!)).toBe(before);
  expect(lowerPriority(child.pid!, 4)).toBeNull();
  // This process may have a low priority itself, and there is none below the lowest.
  expect(getPriority(child.pid!)).toBe(Math.min(getPriority() + 4, constants.priority.PRIORITY_LOW));
  child.stdin.end();
  await once(child, 'exit');
  expect(lowerPriority(child.pid!, 4)).toContain('ESRCH');
});
