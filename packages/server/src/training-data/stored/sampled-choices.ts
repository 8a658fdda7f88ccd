import type { WireTrajectory, WireTrajectoryGroup } from '@trainyard/protocol';
import type { Blobs } from '@trainyard/store';

import { namedRecord, type RecordedChoice } from '../wire/recorded-choice.ts';
import { TrajectoryFormatError } from '../wire/trajectory-format-error.ts';
import { trajectoryGroupOf } from '../wire/trajectory-groups.ts';
import { readStoredRecords } from './stored-group.ts';

export interface SampledChoice {
  /** 0: the first history; from 1 on the additional ones. */
  readonly history: number;
  readonly item: number;
  readonly tokenIds: readonly number[];
  /** NaN for missing ones. */
  readonly logprobs: readonly number[];
  /** UTF-8 of each token from the reply; null if it has none. */
  readonly tokenBytes: readonly Uint8Array[] | null;
}

/**
 * Replies of a trajectory as training reads them, in order. Empty if it cannot be read: logs are stored
 * unchecked.
 */
export async function sampledChoices(
  blobs: Blobs,
  key: string,
  { trajectory, groupIndex }: { trajectory: WireTrajectory; groupIndex: number },
): Promise<SampledChoice[]> {
  const items = [trajectory, ...(trajectory.additional_histories ?? [])].map((own) => own.messages_and_choices ?? []);
  const named = items.flat().map(namedRecord);
  const wanted = new Set(named.flatMap((record) => (record?.isNeeded === true ? [record.id] : [])));
  const records: ReadonlyMap<string, RecordedChoice> =
    wanted.size === 0 ? new Map() : await readStoredRecords(blobs, key, wanted);
  const alone = { trajectories: [trajectory] } as WireTrajectoryGroup;
  const histories = readAs(() => trajectoryGroupOf(alone, groupIndex, { keepsBareIds: true, records }));
  return histories.flatMap((history, historyIndex) =>
    history.items.flatMap((item, itemIndex) =>
      item.kind === 'choice'
        ? [
            {
              history: historyIndex,
              item: itemIndex,
              tokenIds: [...item.tokenIds],
              logprobs: [...item.logprobs],
              tokenBytes: tokenBytes(items[historyIndex]?.[itemIndex], item.tokenIds),
            },
          ]
        : [],
    ),
  );
}

function readAs(read: () => ReturnType<typeof trajectoryGroupOf>) {
  try {
    return read().trajectories[0]?.histories ?? [];
  } catch (error) {
    if (error instanceof TrajectoryFormatError) return [];
    throw error;
  }
}

/** Bytes of each token. Servers that write tokens as ids may send the bytes of that writing instead. */
function tokenBytes(item: unknown, ids: Int32Array): Uint8Array[] | null {
  const { content, refusal } = (item as { logprobs?: Record<string, unknown> | null }).logprobs ?? {};
  const entries = [content, refusal].find((list) => Array.isArray(list) && list.length > 0);
  if (!Array.isArray(entries) || entries.length !== ids.length) return null;
  const texts = entries.map((entry: { token?: unknown; bytes?: unknown }) => {
    const written = typeof entry.token === 'string' ? entry.token : '';
    const isId = written.startsWith('token_id:');
    if (!Array.isArray(entry.bytes)) return isId || written === '' ? null : Buffer.from(written);
    const bytes = Buffer.from(entry.bytes as number[]);
    return isId && bytes.toString('latin1') === written ? null : bytes;
  });
  return texts.every((text) => text !== null) ? texts : null;
}
