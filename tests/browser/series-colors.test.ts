import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

const CSS = readFileSync(join(import.meta.dirname, '../../packages/dashboard/src/styles/tokens.css'), 'utf8');
const THEMES = CSS.split('[data-theme=').map((theme) => ({
  surface: /--surface: (#\w+)/.exec(theme)![1]!,
  series: [1, 2, 3, 4].map((index) => new RegExp(`--series-${index}: (#\\w+)`).exec(theme)![1]!),
}));
type Triple = readonly [number, number, number];

/** Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB. */
const SEEN: Readonly<Record<string, readonly Triple[]>> = {
  'all colours': [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  'no red': [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  'no green': [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  'no blue': [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};
/** Least distance in CIELAB; 4 was the case before, and 2.3 is just visible side by side. */
const LEAST = 25;

test.each(Object.keys(SEEN))('the colours of lines are told apart with %s, in both themes', (eye) => {
  for (const { series } of THEMES)
    for (const [index, color] of series.entries())
      for (const other of series.slice(index + 1)) {
        const [one, two] = [color, other].map((hex) => labOf(seenAs(linearOf(hex), SEEN[eye]!)));
        expect(Math.hypot(...one!.map((value, axis) => value - two![axis]!)), `${color} ${other}`).toBeGreaterThan(
          LEAST,
        );
      }
});

test('each colour of a line has a contrast of 3 to its background', () => {
  for (const { series, surface } of THEMES)
    for (const color of series) {
      const [dark, light] = [color, surface].map(luminanceOf).toSorted((one, two) => one - two);
      expect((light! + 0.05) / (dark! + 0.05), color).toBeGreaterThan(3);
    }
});

function linearOf(hex: string): Triple {
  const [red, green, blue] = [1, 3, 5].map((start) => {
    const value = Number.parseInt(hex.slice(start, start + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return [red!, green!, blue!];
}

function seenAs(color: Triple, rows: readonly Triple[]): Triple {
  const [red, green, blue] = rows.map((row) => {
    const sum = row.reduce((total, factor, index) => total + factor * color[index]!, 0);
    return Math.min(1, Math.max(0, sum));
  });
  return [red!, green!, blue!];
}

function luminanceOf(hex: string): number {
  const [red, green, blue] = linearOf(hex);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** CIELAB of D65. */
function labOf([red, green, blue]: Triple): Triple {
  const part = (value: number) => (value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116);
  const x = part((0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047);
  const y = part(0.2126729 * red + 0.7151522 * green + 0.072175 * blue);
  const z = part((0.0193339 * red + 0.119192 * green + 0.9503041 * blue) / 1.08883);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}
