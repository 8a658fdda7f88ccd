/**
 * Text on the colours of tokens is readable in both themes. Computed from the styles, with the mix of CSS
 * `color-mix(in srgb, …)`.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

const read = (path: string) => readFileSync(join(import.meta.dirname, '../../packages/dashboard/src', path), 'utf8');
const SHARES = Array.from(read('tokens/token-text.css').matchAll(/--tone-share: (\d+)%/g), ([, share]) =>
  Number(share),
);

test('the colours of tokens have four strengths and a neutral one', () => {
  expect(SHARES).toHaveLength(5);
  expect(SHARES).toEqual(SHARES.toSorted((first, second) => first - second));
});

/** Variables of a theme. */
function theme(isDark: boolean): Map<string, number[]> {
  const [light = '', dark = ''] = read('styles/tokens.css').split(":root[data-theme='dark']");
  const named = (isDark ? dark : light).matchAll(/--([a-z0-9-]+): #([0-9a-f]{6});/g);
  return new Map(
    Array.from(named, ([, name, hex]) => [
      name!,
      [0, 2, 4].map((at) => Number.parseInt(hex!.slice(at, at + 2), 16) / 255),
    ]),
  );
}

function luminance(rgb: readonly number[]): number {
  const [red, green, blue] = rgb.map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
}

function contrast(first: readonly number[], second: readonly number[]): number {
  const [low, high] = [luminance(first), luminance(second)].toSorted((a, b) => a - b);
  return (high! + 0.05) / (low! + 0.05);
}

test.each([false, true])('text on every colour has a contrast of 4.5 or more (dark: %s)', (isDark) => {
  const values = theme(isDark);
  const text = values.get('text')!;
  let least = Infinity;
  for (const name of ['warn', 'good', 'bad'])
    // The last one is the background of trained tokens.
    for (const ground of ['surface', 'ground', 'accent-soft'])
      for (const share of SHARES) {
        const mixed = values
          .get(name)!
          .map((value, i) => (value * share + values.get(ground)![i]! * (100 - share)) / 100);
        least = Math.min(least, contrast(text, mixed));
      }
  console.log(`least contrast of text on a colour: ${least.toFixed(2)}`);
  expect(least).toBeGreaterThanOrEqual(4.5);
});
