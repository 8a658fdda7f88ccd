import type { TrackedRunRecord } from './runs.ts';
import type { Statements } from '../../contract/sql.ts';

/** Feed positions of external trackers, and the runs that they have. */
export class TrackerTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  async position(tracker: string): Promise<number | null> {
    const row = await this.#sql.get<{ position: number }>(
      'select position from tracker_positions where tracker = ?',
      tracker,
    );
    return row?.position ?? null;
  }

  async advance(tracker: string, position: number, gradientSteps: ReadonlyMap<string, number>): Promise<void> {
    await this.#sql.run(
      `insert into tracker_positions (tracker, position) values (?, ?)
       on conflict (tracker) do update set position = excluded.position`,
      tracker,
      position,
    );
    for (const [modelId, count] of gradientSteps)
      await this.#sql.run(
        'update tracked_runs set num_gradient_steps = ? where tracker = ? and model_id = ?',
        count,
        tracker,
        modelId,
      );
  }

  async get(tracker: string, modelId: string): Promise<TrackedRunRecord | null> {
    const row = await this.#sql.get<{ run: string; url: string | null; num_gradient_steps: number }>(
      'select run, url, num_gradient_steps from tracked_runs where tracker = ? and model_id = ?',
      tracker,
      modelId,
    );
    return row === undefined ? null : { id: row.run, url: row.url, numGradientSteps: row.num_gradient_steps };
  }

  async set(tracker: string, modelId: string, run: TrackedRunRecord | null): Promise<void> {
    await this.#sql.run('delete from tracked_runs where tracker = ? and model_id = ?', tracker, modelId);
    if (run === null) return;
    await this.#sql.run(
      'insert into tracked_runs (tracker, model_id, run, url, num_gradient_steps) values (?, ?, ?, ?, ?)',
      tracker,
      modelId,
      run.id,
      run.url,
      run.numGradientSteps,
    );
  }
}
