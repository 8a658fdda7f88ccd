import { expect, test } from 'vitest';

import { plainReason } from './plain-reason.ts';

test.each([
  ['the ratio is 7.565114901230517e+32 times `epsilon`', 'The ratio is 7.57e+32 times epsilon'],
  ['step 3 of 0.5 (trainer.loss)', 'Step 3 of 0.5 (trainer.loss)'],
  [null, 'The reason is unknown.'],
])('the reason %j is shown as %j', (message, shown) => expect(plainReason(message)).toBe(shown));
