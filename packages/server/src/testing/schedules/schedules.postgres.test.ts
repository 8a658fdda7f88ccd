import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import { expect, onTestFinished, test } from 'vitest';

/** Seeds that meet most kinds of faults; `npm run lab -- prove` plays a thousand. */
const NUM_SCHEDULES = 6;

async function play(...args: string[]): Promise<{ code: number; output: string }> {
  const child = spawn(
    process.execPath,
    ['--conditions=@trainyard/source', join(import.meta.dirname, 'main.ts'), ...args],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  // After a timeout, too: it then stops its database server.
  onTestFinished(() => void child.kill('SIGTERM'));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes: Buffer) => (output += String(bytes)));
  const [code] = (await once(child, 'close')) as [number];
  return { code, output };
}

test('under any failure of its processes, a service loses nothing and does nothing twice', async () => {
  const { code, output } = await play('--schedules', String(NUM_SCHEDULES));
  expect(output).toContain('0 lost, 0 doubled');
  expect(code).toBe(0);
  for (const fault of ['cut before', 'cut after', 'doubled']) expect(output).toMatch(new RegExp(`${fault} \\d`));
}, 600_000);
