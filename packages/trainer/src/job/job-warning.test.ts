import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { WARNING_CODES } from './job-warning.ts';

it('the reference names every code of a warning, and no other', () => {
  const text = readFileSync(join(import.meta.dirname, '../../../../docs/reference/training-api.md'), 'utf8');
  const section = text.slice(text.indexOf('### Warnings'), text.indexOf('Every value of a `gradient_step`'));
  const named = section
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .flatMap((line) => [...line.split('|')[1]!.matchAll(/`(\w+)`/g)].map(([, code]) => code));
  expect(new Set(named)).toEqual(new Set(WARNING_CODES));
  expect(named).toHaveLength(WARNING_CODES.length);
});
