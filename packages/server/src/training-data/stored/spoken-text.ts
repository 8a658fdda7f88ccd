import type { WireTrajectory } from '@trainyard/protocol';
import { isObject } from '../../seams/json/is-object.ts';

/** Characters shown on each side of a match. */
const MARGIN = 60;

/**
 * All text of a trajectory, message by message: content, reasoning and tool calls. Excludes roles, ids and
 * log-probabilities.
 */
function* spokenTexts(trajectory: WireTrajectory): Generator<string> {
  for (const { messages_and_choices: items } of [trajectory, ...(trajectory.additional_histories ?? [])])
    for (const item of items ?? []) yield* textsOf(messageOf(item));
}

/**
 * Text around the first match; null without one.
 * @param needle in lower case
 */
export function excerptAround(trajectory: WireTrajectory, needle: string): string | null {
  for (const text of spokenTexts(trajectory)) {
    const at = text.toLowerCase().indexOf(needle);
    if (at < 0) continue;
    const start = Math.max(0, at - MARGIN);
    const end = Math.min(text.length, at + needle.length + MARGIN);
    const shown = text.slice(start, end).replaceAll(/\s+/g, ' ').trim();
    return `${start > 0 ? '…' : ''}${shown}${end < text.length ? '…' : ''}`;
  }
  return null;
}

function messageOf(item: unknown): unknown {
  return isObject(item) && isObject(item['message']) ? item['message'] : item;
}

function* textsOf(message: unknown): Generator<string> {
  if (!isObject(message)) return;
  const { content, reasoning, reasoning_content: older, refusal, tool_calls: calls } = message;
  yield* stringsOf([reasoning ?? older, refusal]);
  if (Array.isArray(content)) for (const part of content) yield* stringsOf(isObject(part) ? [part['text']] : [part]);
  else yield* stringsOf([content]);
  for (const call of Array.isArray(calls) ? calls : []) {
    const called: Record<string, unknown> = isObject(call) && isObject(call['function']) ? call['function'] : {};
    const { name, arguments: given } = called;
    // Clients that have parsed them send them back parsed.
    yield* stringsOf([name, typeof given === 'object' && given !== null ? writtenJson(given) : given]);
  }
}

/** Null for values nested too deep for the stack: bodies are read on a larger one. */
function writtenJson(value: object): string | null {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function* stringsOf(values: readonly unknown[]): Generator<string> {
  for (const value of values) if (typeof value === 'string' && value !== '') yield value;
}
