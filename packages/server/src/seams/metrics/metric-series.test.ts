import fc from 'fast-check';
import { Counter, Histogram, Registry } from 'prom-client';
import { expect, test } from 'vitest';

import { Counts, Spreads } from './metric-series.ts';

const NAMES = fc.constantFrom('a', 'b "quoted"', 'c\nd');
const SEEN = fc.array(fc.record({ model: NAMES, reason: NAMES, value: fc.double({ min: 0, max: 4, noNaN: true }) }));
const BOUNDS = [0.5, 1, 2];

test('the text equals that of the classes of prom-client, to the byte', async () => {
  await fc.assert(
    fc.asyncProperty(SEEN, async (seen) => {
      const [own, theirs] = [new Registry(), new Registry()];
      for (const registry of [own, theirs]) registry.setDefaultLabels({ engine: '0' });
      const labelNames = ['model', 'reason'] as const;
      const counts = new Counts({ name: 'ends_total', help: 'Ends.', labelNames, registry: own });
      const spreads = new Spreads({ name: 'time', help: 'Time.', labelNames, bounds: BOUNDS, registry: own });
      const counter = new Counter({ name: 'ends_total', help: 'Ends.', labelNames, registers: [theirs] });
      const options = { name: 'time', help: 'Time.', labelNames, buckets: BOUNDS, registers: [theirs] };
      const histogram = new Histogram(options);
      for (const { model, reason, value } of seen) {
        counts.of(model, reason).add();
        spreads.of(model, reason).add(value);
        counter.inc({ model, reason });
        histogram.observe({ model, reason }, value);
      }
      expect(await own.metrics()).toBe(await theirs.metrics());
    }),
  );
});

test('a series is listed from its first use', async () => {
  const registry = new Registry();
  new Counts({ name: 'ends_total', help: 'Ends.', labelNames: ['model'], registry }).of('a');
  expect(await registry.metrics()).toContain('ends_total{model="a"} 0\n');
});
