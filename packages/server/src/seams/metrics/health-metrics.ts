import type { Health } from '@trainyard/protocol';
import { Gauge, type Registry } from 'prom-client';

import type { ServiceHealth } from '../health/service-health.ts';
import { addKnownGauge } from './known-gauge.ts';

type PartCount = Health['parts']['engines'];

export class HealthMetrics {
  /** Null: no health is reported. */
  source: Pick<ServiceHealth, 'report' | 'readiness'> | null = null;
  #reporting: Promise<Health | null> | null = null;

  /** @param ofSampling registry of processes that sample or route requests to samplers */
  constructor(registry: Registry, ofSampling: Registry) {
    addKnownGauge(registry, 'ready', '1 while this process accepts requests or jobs.', async () =>
      this.source === null ? null : Number((await this.source.readiness()).status === 'ready'),
    );
    const upOf = (part: Health['parts']['bucket'] | undefined) => (part == null ? null : Number(part.is_up));
    addKnownGauge(registry, 'database_up', '1 while the database responds within 2 s.', async () =>
      upOf((await this.#report())?.parts.database),
    );
    addKnownGauge(registry, 'bucket_up', '1 while the bucket responds within 2 s.', async () =>
      upOf((await this.#report())?.parts.bucket),
    );
    addKnownGauge(registry, 'draining', '1 while this process is shutting down.', async () => {
      const report = await this.#report();
      return report === null ? null : Number(report.parts.draining);
    });
    this.#counts(
      ofSampling,
      'engines',
      'Engines and vLLM servers by state: ready of registered.',
      (parts) => parts.engines,
    );
    this.#counts(
      registry,
      'trainers',
      'Trainers of the service by state: ready of registered.',
      (parts) => parts.trainers,
    );
  }

  #counts(registry: Registry, name: string, help: string, read: (parts: Health['parts']) => PartCount): void {
    const gauge = new Gauge({
      name: `trainyard_${name}`,
      help,
      labelNames: ['state'],
      registers: [registry],
      collect: async () => {
        const report = await this.#report();
        const count = report === null ? null : read(report.parts);
        gauge.reset();
        if (count === null) return;
        gauge.set({ state: 'ready' }, count.ready);
        gauge.set({ state: 'registered' }, count.total);
      },
    });
  }

  /** All gauges of a scrape share one report. */
  async #report(): Promise<Health | null> {
    this.#reporting ??= (this.source?.report() ?? Promise.resolve(null)).finally(() => (this.#reporting = null));
    return await this.#reporting;
  }
}
