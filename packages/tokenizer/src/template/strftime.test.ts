import { expect, test } from 'vitest';
import { strftime } from './strftime.ts';

const date = new Date(2024, 6, 5, 0, 7, 9); // Friday, 5 July 2024, local time

test.each([
  ['%d %b %Y', '05 Jul 2024'],
  ['%Y-%m-%dT%H:%M:%S', '2024-07-05T00:07:09'],
  ['%A %B %-d, %y', 'Friday July 5, 24'],
  ['%a %I:%M %p %-H', 'Fri 12:07 AM 0'],
  ['100%% %q', '100% %q'],
])('%s', (format, expected) => {
  expect(strftime(date, format)).toBe(expected);
});
