import { setImmediate as nextTurn } from 'node:timers/promises';

import type { WireTrajectoryGroup } from '@trainyard/protocol';

import { SharedPrompts } from './shared-prompts.ts';
import { hasTokensOf, namedRecord, type RecordedChoice, type SampledTokens } from '../wire/recorded-choice.ts';

/** Missing records are unknown, expired or another entity's. */
export type FindRecords = (recordIds: readonly string[]) => Promise<ReadonlyMap<string, SampledTokens>>;

/** Records per query: each costs the store's thread some 10 µs. */
const FOUND_AT_ONCE = 64;

export interface WantedRecords {
  records: ReadonlyMap<string, RecordedChoice>;
  /** Choices without all of their own tokens and log-probabilities that have no record either. */
  numUnknown: number;
}

/**
 * Finds the records that choices name. Choices without all of their own tokens and log-probabilities are
 * trained from their record; other choices need from it the sampling settings and the prompt.
 */
export async function findWantedRecords(
  groups: readonly WireTrajectoryGroup[],
  find: FindRecords,
): Promise<WantedRecords> {
  const needed: string[] = [];
  const complete = new Map<string, unknown[]>();
  const otherIds = new Map<string, string>();
  for (const group of groups) {
    for (const trajectory of group.trajectories) {
      for (const { messages_and_choices: items } of [trajectory, ...(trajectory.additional_histories ?? [])]) {
        for (const item of items ?? []) {
          const named = namedRecord(item);
          if (named !== null && named.otherId !== null && named.otherId !== named.id)
            otherIds.set(named.id, named.otherId);
          if (named?.isNeeded === true) needed.push(named.id);
          else if (named !== null) addTo(complete, named.id, item);
        }
      }
    }
  }
  const records = new Map<string, RecordedChoice>();
  const prompts = new SharedPrompts();
  const isNeeded = new Set(needed);
  const ids = [...new Set([...isNeeded, ...complete.keys()])];
  const keep = (id: string, record: SampledTokens): void => {
    // Also kept if all its choices have other tokens: a missing record means that it was deleted.
    const items = complete.get(id) ?? [];
    const numUnchanged = items.filter((item) => hasTokensOf(item, record)).length;
    const isPlain = !isNeeded.has(id) && record.sampling === null && numUnchanged === items.length;
    const promptTokenIds = prompts.keep(record.promptTokenIds);
    records.set(id, isPlain ? { kind: 'plain', promptTokenIds } : { kind: 'sampled', ...record, promptTokenIds });
  };
  for (let start = 0; start < ids.length; start += FOUND_AT_ONCE) {
    const some = ids.slice(start, start + FOUND_AT_ONCE);
    const found = await find(some);
    const others = some.filter((id) => !found.has(id) && otherIds.has(id));
    const foundOthers: Awaited<ReturnType<FindRecords>> =
      others.length === 0 ? new Map() : await find(others.map((id) => otherIds.get(id)!));
    for (const [id, record] of found) keep(id, record);
    for (const id of others) {
      const record = foundOthers.get(otherIds.get(id)!);
      if (record !== undefined) keep(id, record);
    }
    await nextTurn();
  }
  return { records, numUnknown: needed.filter((id) => !records.has(id)).length };
}

function addTo(lists: Map<string, unknown[]>, key: string, item: unknown): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [item]);
  else list.push(item);
}
