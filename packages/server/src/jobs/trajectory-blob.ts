import type { Blobs } from '@trainyard/store';
import type { TrajectoryGroup } from '@trainyard/trainer';
import type { WireTrajectoryGroup } from '@trainyard/protocol';

import { trajectoryGroupOf } from '../wire/trajectory-groups.ts';

/**
 * Reads a job's groups, one JSON line each, as they were checked and stored when the job was submitted.
 *
 * @param options.keepsBareIds see `GroupOptions`
 */
export async function readTrajectoryGroups(
  blobs: Blobs,
  key: string,
  options: { keepsBareIds: boolean },
): Promise<TrajectoryGroup[]> {
  const groups: TrajectoryGroup[] = [];
  for await (const line of blobs.getJsonLines(key))
    groups.push(trajectoryGroupOf(line as WireTrajectoryGroup, groups.length, options));
  return groups;
}
