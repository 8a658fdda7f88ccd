import { createHash } from 'node:crypto';

import type { WireTrajectory } from '@trainyard/protocol';
import { isReply, isSampledChoice, logprobEntriesOf, promptLength } from '@trainyard/protocol/fields';
import type { TrajectoryContents } from '@trainyard/store';

import { isObject } from '../../seams/json/is-object.ts';
import { recordOfAnswer } from './recorded-choice.ts';

/** 128 bits. */
const DIGEST_LENGTH = 32;
/** Characters of a question or reply in a list. */
const EXCERPT_LENGTH = 240;
const MAX_FINISH_REASON_LENGTH = 64;
/** Own metrics in a list; the trajectory has all of them. */
const MAX_METRICS = 32;
const MAX_NAME_LENGTH = 100;

/** Number of tokens of each record, by `record_id`. */
export type RecordLengths = ReadonlyMap<string, number>;

/**
 * Facts of a trajectory for lists.
 * @param records of choices without their own tokens
 */
export function trajectoryContents(trajectory: WireTrajectory, records: RecordLengths): TrajectoryContents {
  const { messages_and_choices: items = [], tools, additional_histories: others } = trajectory;
  const prompt = items.slice(0, promptLength(items));
  const all = [items, ...(others ?? []).map((history) => history.messages_and_choices ?? [])];
  const sampled = distinctChoices(all.flat());
  const last = all.flat().findLast(isReply);
  const finishReason = last?.['finish_reason'];
  const question = prompt.findLast((item) => isObject(item) && item['role'] === 'user') ?? prompt.at(-1);
  return {
    promptDigest: promptDigest(prompt, tools),
    question: question === undefined ? null : excerptOf(question),
    reply: last === undefined ? null : excerptOf(last),
    numTurns: sampled.length > 0 ? sampled.length : items.slice(prompt.length).filter(isReply).length,
    numTokens: numTokensOf(sampled, records),
    finishReason: typeof finishReason === 'string' ? storable(finishReason) : null,
    metrics: ownMetrics(trajectory.metrics),
  };
}

/** PostgreSQL stores no NUL. */
function storable(name: string): string {
  return name.slice(0, MAX_FINISH_REASON_LENGTH).replaceAll('\0', ' ').toWellFormed();
}

/** Equal for trajectories with the same prompt and tools, as sent. Null without a prompt. */
function promptDigest(prompt: readonly unknown[], tools: unknown): string | null {
  if (prompt.length === 0) return null;
  const text = JSON.stringify([prompt, tools ?? null], sorted);
  return createHash('sha256').update(text).digest('hex').slice(0, DIGEST_LENGTH);
}

/** Clients send the members of a message in any order. */
function sorted(_key: string, value: unknown): unknown {
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).toSorted(([first], [second]) => (first < second ? -1 : 1)));
}

/** Several histories can contain the same choice. */
function distinctChoices(items: readonly unknown[]): Record<string, unknown>[] {
  const seen = new Set<string>();
  return items.filter(isReply).filter((item) => {
    if (!isSampledChoice(item)) return false;
    const { record_id: record } = item;
    const name = typeof record === 'string' ? record : recordOfAnswer(item['id'], item['index']);
    if (name === null) return true;
    const isNew = !seen.has(name);
    seen.add(name);
    return isNew;
  });
}

/** Null if there are no sampled choices, or the length of one is unknown. */
function numTokensOf(sampled: readonly Record<string, unknown>[], records: RecordLengths): number | null {
  if (sampled.length === 0) return null;
  let sum = 0;
  for (const { token_ids: ids, logprobs, record_id: record } of sampled) {
    const entries = logprobEntriesOf(logprobs);
    const own = entries.length > 0 ? entries.length : Array.isArray(ids) ? ids.length : 0;
    const length = own > 0 ? own : typeof record === 'string' ? records.get(record) : undefined;
    if (length === undefined) return null;
    sum += length;
  }
  return sum;
}

/** Start of a message's text, or of its calls, in one line. Null if it has neither. */
function excerptOf(item: unknown): string | null {
  const message = isObject(item) && isObject(item['message']) ? item['message'] : item;
  if (!isObject(message)) return null;
  const text = textOf(message['content'] ?? message['refusal']) || callsOf(message['tool_calls']);
  const line = text
    .slice(0, 4 * EXCERPT_LENGTH)
    .replaceAll(/[\s\p{Cc}]+/gu, ' ')
    .trim();
  if (line === '') return null;
  const isShortened = line.length > EXCERPT_LENGTH || text.length > 4 * EXCERPT_LENGTH;
  return isShortened ? `${line.slice(0, EXCERPT_LENGTH).toWellFormed()}…` : line.toWellFormed();
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content
    .map((part: unknown) => (isObject(part) ? part['text'] : part))
    .filter((text) => typeof text === 'string')
    .join('');
}

function callsOf(calls: unknown): string {
  if (!Array.isArray(calls)) return '';
  return calls
    .map((call: unknown) => {
      const called = isObject(call) && isObject(call['function']) ? call['function'] : {};
      const { name, arguments: given } = called;
      return `${String(name)}(${typeof given === 'string' ? given : JSON.stringify(given ?? {})})`;
    })
    .join(' ');
}

/** Finite numbers and booleans, by name. */
function ownMetrics(metrics: unknown): Record<string, number> {
  if (!isObject(metrics)) return {};
  const numbers = Object.entries(metrics)
    .filter(([name, value]) => name.length <= MAX_NAME_LENGTH && (typeof value === 'boolean' || Number.isFinite(value)))
    .map(([name, value]): [string, number] => [name, Number(value)]);
  return Object.fromEntries(numbers.slice(0, MAX_METRICS));
}
