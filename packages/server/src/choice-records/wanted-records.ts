import { setImmediate as nextTurn } from 'node:timers/promises';

import type { WireTrajectoryGroup } from '@trainyard/protocol';

import { type SampledTokens, wantedRecordId } from '../wire/recorded-choice.ts';

/** Those that are known, by id; the rest is unknown, expired or another entity's. */
export type FindRecords = (recordIds: readonly string[]) => Promise<ReadonlyMap<string, SampledTokens>>;

/** Records that are asked for at once: each costs the thread of the store some 10 µs. */
const FOUND_AT_ONCE = 64;

export interface WantedRecords {
  /** By id. */
  records: ReadonlyMap<string, SampledTokens>;
  /** Choices whose record is not there. */
  numUnknown: number;
}

/** The records of choices that come without all of their own tokens and log-probabilities; choices that have them cost no search. */
export async function findWantedRecords(
  groups: readonly WireTrajectoryGroup[],
  find: FindRecords,
): Promise<WantedRecords> {
  const wanted: string[] = [];
  for (const group of groups) {
    for (const trajectory of group.trajectories) {
      for (const { messages_and_choices: items } of [trajectory, ...(trajectory.additional_histories ?? [])]) {
        for (const item of items ?? []) {
          const id = wantedRecordId(item);
          if (id !== null) wanted.push(id);
        }
      }
    }
  }
  const records = new Map<string, SampledTokens>();
  const ids = [...new Set(wanted)];
  for (let start = 0; start < ids.length; start += FOUND_AT_ONCE) {
    for (const [id, record] of await find(ids.slice(start, start + FOUND_AT_ONCE))) records.set(id, record);
    await nextTurn();
  }
  return { records, numUnknown: wanted.filter((id) => !records.has(id)).length };
}
