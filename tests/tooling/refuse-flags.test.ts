import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';

import { expect, test } from 'vitest';

const SCRIPT = resolve(import.meta.dirname, '../../scripts/refuse-flags.mjs');

test.each([
  [['--wrong'], "trainyard: unknown option '--wrong'. "],
  [['--wrong=1', '--port', '8421'], "trainyard: unknown option '--wrong'. "],
  [['--port', '8421', 'extra'], "trainyard: unknown argument 'extra'. "],
  [['--data', 'x'], "trainyard: unknown option '--data' (did you mean --data-dir?). "],
])('%j is refused', (args, message) => {
  const { status, stderr } = spawnSync(process.execPath, [SCRIPT, ...args], { encoding: 'utf8' });
  expect(status).toBe(2);
  expect(stderr.startsWith(message)).toBe(true);
});

test.each([[[]], [['--help']], [['-h']], [['--port', '0', '--model', 'a.gguf', '--model=b.gguf', '--deterministic']]])(
  '%j is left to the command',
  (args) => {
    expect(spawnSync(process.execPath, [SCRIPT, ...args], { encoding: 'utf8' })).toMatchObject({
      status: 0,
      stderr: '',
    });
  },
);
