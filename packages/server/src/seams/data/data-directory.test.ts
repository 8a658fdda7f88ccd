import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, onTestFinished, test } from 'vitest';

import { claimDataDirectory, findRunningService, refuseTakenDataDirectory } from './data-directory.ts';

test('a copy of a folder in use has a foreign lock, and the error names the remedy', () => {
  const place = mkdtempSync(join(tmpdir(), 'trainyard-copy-'));
  onTestFinished(() => rmSync(place, { recursive: true }));
  const [served, copy] = [join(place, 'served'), join(place, 'copy')];
  mkdirSync(served);
  const other = spawn('sleep', ['60']);
  onTestFinished(() => void other.kill());
  const pid = other.pid!;
  const ticks = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[19];
  const startedAt = `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}/${ticks}`;
  const { dev, ino } = statSync(served);
  writeFileSync(
    join(served, 'service.pid'),
    JSON.stringify({ pid, startedAt, url: 'http://127.0.0.1:8420', folder: `${dev}:${ino}` }),
  );
  writeFileSync(join(served, 'instance'), 'one\n');
  cpSync(served, copy, { recursive: true });

  for (const refused of [claimDataDirectory, refuseTakenDataDirectory]) {
    expect(() => refused(served)).toThrow(`is in use by process ${pid}; stop it or set TRAINYARD_DATA_DIR`);
    expect(() => refused(copy)).toThrow(
      `the data folder ${copy} is a copy: its service.pid belongs to process ${pid}, which uses another folder; remove service.pid and instance to use the copy`,
    );
  }
  // Commands in the copy do not contact the service of the other folder.
  expect(findRunningService(served)).toEqual({ pid, url: 'http://127.0.0.1:8420' });
  expect(findRunningService(copy)).toBeNull();
  for (const name of ['service.pid', 'instance']) rmSync(join(copy, name));
  claimDataDirectory(copy)();
});
