import { choiceRecordId, recordIdByTokens, type RecordedSampling } from '@trainyard/store';
import { isObject } from '../../seams/json/is-object.ts';

/** A choice of a trajectory that names the service's own record of what was sampled. */

/** A choice as its record describes it. */
export interface SampledTokens {
  readonly promptTokenIds: Int32Array;
  /** The stopping one included. */
  readonly tokenIds: Int32Array;
  /** Shape as `tokenIds`. */
  readonly logprobs: Float32Array;
  /** How they were drawn: null = plainly from the model's distribution; absent = not known. */
  readonly sampling?: RecordedSampling | null;
  /** Digest of the adapter that they were drawn with; null = the base model; absent = not known. */
  readonly digest?: string | null;
}

/**
 * A record as a job keeps it: whole, or of a choice that has its own tokens that these were drawn plainly from the model, and behind which prompt.
 * Jobs of before did not keep the prompt of these.
 */
export type RecordedChoice =
  | ({ readonly kind: 'sampled' } & SampledTokens)
  | { readonly kind: 'plain'; readonly promptTokenIds?: Int32Array };

/** Where a choice says something else than its record, and what the record says. */
interface Contradiction {
  readonly loc: readonly (string | number)[];
  readonly msg: string;
  readonly input?: unknown;
}

/** The record that an item is trained by. */
interface NamedRecord {
  readonly id: string;
  /** Where it is looked for if it is not there under `id`. */
  readonly otherId: string | null;
  /** The item lacks its own tokens or log-probabilities. */
  readonly isNeeded: boolean;
  /** The item names a record. False: it may be of another service. */
  readonly isNamed: boolean;
}

/** The record that an item names, or that it can be found by; null when there is nothing to look for. */
export function namedRecord(item: unknown): NamedRecord | null {
  if (!isObject(item)) return null;
  if (!isObject(item['message']) && item['role'] !== 'assistant') return null;
  // One that has its own tokens and log-probabilities needs the record only to know how they were drawn.
  const own = ownTokens(item);
  const isNeeded = own === null;
  const { record_id: id } = item;
  if (typeof id === 'string') return { id, otherId: null, isNeeded, isNamed: true };
  if (own === null) return null;
  const byTokens = recordIdByTokens(own);
  const answered = recordOfAnswer(item['id'], item['index']);
  return { id: answered ?? byTokens, otherId: byTokens, isNeeded, isNamed: false };
}

/** Ids of answers that the service made up itself: nobody else's answer has them. */
const ANSWER_ID = /^(?:chatcmpl-|msg_|resp_)([0-9a-f]{32})$/;

/** The record of a choice by the id of its answer, which clients keep where they drop `record_id`. */
export function recordOfAnswer(answer: unknown, index: unknown): string | null {
  const answerId = typeof answer === 'string' ? ANSWER_ID.exec(answer)?.[1] : undefined;
  return answerId === undefined || !Number.isSafeInteger(index)
    ? null
    : choiceRecordId({ answerId, choiceIndex: index as number });
}

/** Whether the tokens of an item that has its own are those of the record. */
export function hasTokensOf(item: unknown, { tokenIds }: Pick<SampledTokens, 'tokenIds'>): boolean {
  if (!isObject(item)) return false;
  const given = item['token_ids'];
  const ids: unknown[] = Array.isArray(given) && given.length > 0 ? given : entriesOf(item).list.map(idOf);
  return ids.length === tokenIds.length && ids.every((id, place) => id === tokenIds[place]);
}

/** The tokens and log-probabilities of an item that has all of them; else null. */
function ownTokens(item: Record<string, unknown>): { tokenIds: Int32Array; logprobs: Float32Array } | null {
  const { list } = entriesOf(item);
  if (list.length === 0) return null;
  const given = item['token_ids'];
  const ids: readonly unknown[] = Array.isArray(given) && given.length > 0 ? given : list.map(idOf);
  if (ids.length !== list.length || ids.includes(null)) return null;
  const logprobs = list.map((entry) => (isObject(entry) ? Number(entry['logprob']) : Number.NaN));
  return { tokenIds: Int32Array.from(ids, Number), logprobs: Float32Array.from(logprobs) };
}

/** Null when everything that the item tells of its ids is what its record says. */
export function contradictionOf(item: Record<string, unknown>, record: SampledTokens): Contradiction | null {
  for (const [field, expected] of [
    ['token_ids', record.tokenIds],
    ['prompt_token_ids', record.promptTokenIds],
  ] as const) {
    const given = item[field];
    if (!Array.isArray(given) || given.length === 0) continue;
    const index = given.findIndex((id, place) => id !== expected[place]);
    if (index >= 0) return differs([field, index], expected[index], given[index]);
    if (given.length !== expected.length)
      return { loc: [field], msg: `Input should have ${expected.length} ids as in the record, got ${given.length}` };
  }
  const { key, list } = entriesOf(item);
  const { tokenIds } = record;
  const index = list.findIndex((entry, place) => (idOf(entry) ?? tokenIds[place]) !== tokenIds[place]);
  return index < 0 ? null : differs(['logprobs', key, index, 'token'], tokenIds[index], idOf(list[index]));
}

function differs(loc: (string | number)[], expected: number | undefined, input: unknown): Contradiction {
  const wanted = expected === undefined ? 'no token' : `the token id ${expected}`;
  return { loc, msg: `Input should be ${wanted} as in the record of this choice`, input };
}

function entriesOf(item: Record<string, unknown>): { key: 'content' | 'refusal'; list: readonly unknown[] } {
  const logprobs = isObject(item['logprobs']) ? item['logprobs'] : {};
  const key = logprobs['content'] ? 'content' : 'refusal';
  const list = logprobs[key];
  return { key, list: Array.isArray(list) ? list : [] };
}

function idOf(entry: unknown): number | null {
  const token = isObject(entry) ? entry['token'] : undefined;
  const digits = typeof token === 'string' ? /^token_id:(\d+)$/.exec(token)?.[1] : undefined;
  return digits === undefined ? null : Number(digits);
}
