import assert, { AssertionError } from 'node:assert/strict';

import type { Blobs } from '@trainyard/store';
import type { TrajectoryGroup } from '@trainyard/trainer';
import type { WireTrajectoryGroup } from '@trainyard/protocol';

import { RecordLineReader } from '../choice-records/record-lines.ts';
import type { RecordedChoice } from '../wire/recorded-choice.ts';
import { readStoredLine } from './stored-line.ts';
import { type GroupOptions, trajectoryGroupOf } from '../wire/trajectory-groups.ts';

/**
 * Reads a job's groups, one JSON line each, as checked and stored at its submission, and the records before
 * them. Lines are in the wire form, which users read back.
 * @param options.keepsBareIds see `GroupOptions`
 * @throws {StoreError} of the blob; {AssertionError} for a line that no submission can have stored
 */
export async function readTrajectoryGroups(
  blobs: Blobs,
  key: string,
  { keepsBareIds }: { keepsBareIds: boolean },
): Promise<TrajectoryGroup[]> {
  const groups: TrajectoryGroup[] = [];
  const records = new Map<string, RecordedChoice>();
  const reader = new RecordLineReader();
  for await (const line of blobs.getJsonLines(key, readStoredLine)) {
    const record = reader.read(line as object);
    if (record !== null) records.set(...record);
    else groups.push(storedGroup(line, { key, index: groups.length }, { keepsBareIds, records, isChecked: true }));
  }
  return groups;
}

function storedGroup(line: unknown, at: { key: string; index: number }, options: GroupOptions): TrajectoryGroup {
  try {
    const group = line as WireTrajectoryGroup;
    assert(Array.isArray(group.trajectories), '`trajectories` is no list');
    return trajectoryGroupOf(group, at.index, options);
  } catch (cause) {
    const message = `group ${at.index} of ${at.key} is not as it was checked at its submission: ${(cause as Error).message}`;
    throw Object.assign(new AssertionError({ message }), { cause });
  }
}
