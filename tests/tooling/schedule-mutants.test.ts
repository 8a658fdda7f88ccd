import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { SCHEDULE_MUTANTS } from '../../lab/schedules/schedule-mutants.mjs';

const ROOT = join(import.meta.dirname, '../..');

test.each(SCHEDULE_MUTANTS)('the sources contain the code to break: $name', ({ edits }) => {
  for (const { file, from, to } of edits) {
    expect(readFileSync(join(ROOT, file), 'utf8').split(from), from).toHaveLength(2);
    expect(to).not.toBe(from);
  }
});
