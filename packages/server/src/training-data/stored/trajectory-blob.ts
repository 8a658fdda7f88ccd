import type { Blobs } from '@trainyard/store';
import type { TrajectoryGroup } from '@trainyard/trainer';
import type { WireTrajectoryGroup } from '@trainyard/protocol';

import { RecordLineReader } from '../choice-records/record-lines.ts';
import type { RecordedChoice } from '../wire/recorded-choice.ts';
import { readStoredLine } from './stored-line.ts';
import { trajectoryGroupOf } from '../wire/trajectory-groups.ts';

/**
 * Reads a job's groups, one JSON line each, as checked and stored at its submission, and the records before
 * them.
 * @param options.keepsBareIds see `GroupOptions`
 */
export async function readTrajectoryGroups(
  blobs: Blobs,
  key: string,
  options: { keepsBareIds: boolean },
): Promise<TrajectoryGroup[]> {
  const groups: TrajectoryGroup[] = [];
  const records = new Map<string, RecordedChoice>();
  const reader = new RecordLineReader();
  for await (const line of blobs.getJsonLines(key, readStoredLine)) {
    const record = reader.read(line as object);
    if (record !== null) records.set(...record);
    else groups.push(trajectoryGroupOf(line as WireTrajectoryGroup, groups.length, { ...options, records }));
  }
  return groups;
}
