import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { ART_TIMEOUT_MS, installedArtReleases, runArtClient } from '../support/art-client.ts';
import { smallService } from '../support/small-service.ts';

/** As in art_sft_client.py. */
const NUM_EPOCHS = 60;

interface Report {
  artifact: { url: string; num_lines: number };
  events: [type: string, data: Record<string, unknown>][];
  step: number;
  answers: string[];
  defaults: string[];
  unknown: [type: string, message: string];
  last_step: number;
}

describe.each(await installedArtReleases())('supervised jobs of the unmodified openpipe-art client (%s)', (release) => {
  let service: OwnService;
  let report: Report;

  beforeAll(async () => {
    service = await smallService();
    report = await runArtClient<Report>('art_sft_client.py', service, release);
  }, ART_TIMEOUT_MS);

  afterAll(async () => {
    await service.close();
  });

  it('uploaded data has the name that the client chooses', () => {
    expect(report.artifact).toMatchObject({ url: 'wandb-artifact:///local/conformance/facts:v0', num_lines: 3 });
  });

  it('gets its events: the start, a step per batch with its own learning rate, the end', () => {
    const [started, ...others] = report.events.filter(([type]) => type !== 'warning');
    expect(started).toEqual([
      'training_started',
      expect.objectContaining({ num_sequences: NUM_EPOCHS, num_ignored_learning_rates: 0 }),
    ]);
    expect(others.map(([type]) => type)).toEqual([
      ...Array.from({ length: NUM_EPOCHS }, () => 'gradient_step'),
      'training_ended',
    ]);
    const steps = others.slice(0, -1).map(([, data]) => data);
    // The client passes every value through float().
    for (const data of steps) expect(Object.values(data).filter((value) => typeof value !== 'number')).toEqual([]);
    const losses = steps.map((data) => data['loss'] as number);
    console.log(`losses ${losses.map((loss) => loss.toFixed(2)).join(' ')}`);
    expect(losses.at(-1)).toBeLessThan(losses[0]! / 10);
    expect(steps[0]).toMatchObject({ learning_rate: 1e-3, num_trajectories: 3, num_dropped_trajectories: 0 });
    expect(report.step).toBe(1);
  });

  it('gets answers with the trained content', () => {
    expect(report.answers).toEqual(['Kelmar.', 'Ilse Ottaway.', 'Hot plum tea.']);
  });

  it("uses the service's defaults without a configuration: batches of two", () => {
    expect(report.defaults.filter((type) => type !== 'warning')).toEqual([
      'training_started',
      'gradient_step',
      'gradient_step',
      'training_ended',
    ]);
  });

  it('is refused at once for data that cannot be read', () => {
    expect(report.unknown[0]).toBe('UnprocessableEntityError');
    expect(report.unknown[1]).toContain('does not exist');
  });

  it('completes `train_sft`, with its upload stored here', () => {
    expect(report.last_step).toBe(3);
  });
});
