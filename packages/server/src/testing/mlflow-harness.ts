import { MlflowTracker } from '../jobs/tracking/mlflow-tracker.ts';
import type { TrackerHarness } from './run-tracker.suite.ts';

/** A tracker on that server, read back through the server's own API. */
export function mlflowHarness(url: URL, close: () => Promise<void>): TrackerHarness {
  const get = async <Answer>(path: string): Promise<Answer> =>
    (await (await fetch(new URL(`/api/2.0/mlflow/${path}`, url))).json()) as Answer;
  return {
    tracker: new MlflowTracker(url),
    read: async (id, metric) => {
      const { run } = await get<{ run: { info: { lifecycle_stage: string } } }>(`runs/get?run_id=${id}`);
      if (run.info.lifecycle_stage !== 'active') return null;
      const path = `metrics/get-history?run_id=${id}&metric_key=${encodeURIComponent(metric)}`;
      const { metrics = [] } = await get<{ metrics?: { step: number; value: number }[] }>(path);
      return metrics
        .map(({ step, value }): [number, number] => [step, value])
        .toSorted(([first], [second]) => first - second);
    },
    close,
  };
}
