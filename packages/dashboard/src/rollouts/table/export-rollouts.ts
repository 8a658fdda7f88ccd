import type { TrajectoryObject } from '@trainyard/sdk';

import { client } from '../../api/client.ts';
import type { RolloutFilter } from '../../api/rollouts.ts';
import { download } from '../../charts/csv.ts';
import { toCsv } from './rollouts-csv.ts';

const PAGE_SIZE = 1000;

/** Downloads all rollouts that match a filter, in its order, as a file. */
export async function exportRollouts(modelId: string, filter: RolloutFilter, format: 'csv' | 'jsonl'): Promise<void> {
  const rollouts: TrajectoryObject[] = [];
  for (let after: string | null = null; ;) {
    const query: Parameters<typeof client.trajectories.list>[1] = {
      ...filter,
      limit: PAGE_SIZE,
      ...(after === null ? {} : { after }),
    };
    const page = await client.trajectories.list(modelId, query);
    rollouts.push(...page.data);
    after = page.last_id;
    if (!page.has_more || after === null) break;
  }
  const text = format === 'csv' ? toCsv(rollouts) : toJsonLines(rollouts);
  download(`rollouts.${format}`, text, format === 'csv' ? 'text/csv' : 'application/jsonl');
}

function toJsonLines(rollouts: readonly TrajectoryObject[]): string {
  return rollouts.map((rollout) => `${JSON.stringify(rollout)}\n`).join('');
}
