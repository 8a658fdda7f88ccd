import { expect, test } from 'vitest';

import { judgeGap } from './sampler-gap.ts';

test.each([
  [0, 'good'],
  [4e-6, 'good'],
  [0.02, 'plain'],
  [0.07, 'bad'],
])('a mean gap of %d is %s', (gap, tone) => expect(judgeGap(gap).tone).toBe(tone));
