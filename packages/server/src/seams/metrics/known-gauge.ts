import { Gauge, type Registry } from 'prom-client';

/**
 * Adds a gauge that is read at each scrape. Absent, not 0, while its value is unknown.
 * @param name without `trainyard_`
 * @param read null or undefined: unknown
 */
export function addKnownGauge(
  registry: Registry,
  name: string,
  help: string,
  read: () => number | null | undefined | Promise<number | null | undefined>,
): void {
  const gauge: Gauge = new Gauge({
    name: `trainyard_${name}`,
    help,
    registers: [registry],
    collect: async () => {
      const value = await read();
      if (value === null || value === undefined) gauge.remove();
      else gauge.set(value);
    },
  });
}
