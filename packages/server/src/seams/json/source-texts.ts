import { needsPythonValues } from '@trainyard/generation';
import { isSortedKey } from '@trainyard/protocol/json';

import { eachItem, eachMember } from './json-scan.ts';
import { JsonText } from './ordered-json.ts';

/**
 * Places in a body with client-defined values: member names on the way to them, `each` for list items. A kept
 * value may contain further places.
 */
type Places = Within | 'kept' | readonly ['kept', Within];
interface Within {
  readonly [name: string]: Places;
}

const MEMBER: Within = { function: { parameters: 'kept' }, parameters: 'kept', input_schema: 'kept' };
const TOOL: Within = { ...MEMBER, tools: { each: MEMBER } };
/** Members outside the schema reach templates, too. */
const TOOLS: Within = { each: ['kept', TOOL] };
const VARIABLES: Within = { tools: TOOLS, chat_template_kwargs: 'kept' };
const CALLS: Places = { each: { function: { arguments: 'kept' }, args: 'kept' } };
const MESSAGES = { each: { tool_calls: CALLS, tools: TOOLS } };
const CHOICES = { each: { message: { tool_calls: CALLS } } };
const HISTORY: Within = { ...VARIABLES, messages_and_choices: { each: { ...MESSAGES.each, ...CHOICES.each } } };
const EXCHANGE: Within = { request: { ...VARIABLES, messages: MESSAGES }, response: { choices: CHOICES } };
const BLOCKS = { each: { input: 'kept' } } as const;
const MESSAGE_EXCHANGE: Within = {
  request: { messages: { each: { content: BLOCKS } } },
  response: { content: BLOCKS },
};
const TRAJECTORY: Within = {
  ...HISTORY,
  additional_histories: { each: HISTORY },
  exchanges: { chat_completions: { each: EXCHANGE }, messages: { each: MESSAGE_EXCHANGE } },
};
const PLACES: Within = {
  ...VARIABLES,
  response_format: { json_schema: { schema: 'kept' }, format: 'kept', structures: { each: { schema: 'kept' } } },
  structured_outputs: { json: 'kept' },
  output_config: { format: { schema: 'kept' } },
  text: { format: { schema: 'kept' } },
  messages: { each: { ...MESSAGES.each, content: BLOCKS } },
  trajectory_groups: { each: { trajectories: { each: TRAJECTORY } } },
  trajectories: { each: TRAJECTORY },
};

const TEXTS = new WeakMap<object, string>();

/** Source text of a value in a body; null if `JSON.parse` loses nothing of it, or the place is not kept. */
export function sourceTextOf(value: unknown): string | null {
  return typeof value === 'object' && value !== null ? (TEXTS.get(value) ?? null) : null;
}

/** Sets the text of a value that was assembled from others. */
export function keepSourceText(value: object, text: string): void {
  TEXTS.set(value, text);
}

/** Input for `toOrderedJson`: the value, or its text if `JSON.parse` loses part of it. */
export function asWritten(value: unknown): unknown {
  const text = sourceTextOf(value);
  return text === null ? value : new JsonText(text);
}

/**
 * Keeps the source texts of values that JavaScript reads differently from Python: digits beyond 2^53, `1.0`,
 * keys that look like integers, and keys that body parsing removes (`__proto__`). The text is scanned only if
 * one of them has such a number or key.
 * @param body parsed from `text`
 */
export function keepSourceTexts(body: unknown, text: string): void {
  if (mayLose(body, PLACES) || LOST_KEY.test(text)) keep(body, PLACES, text);
}

/**
 * A key that `secure-json-parse` removes, in any spelling, or one that may make it remove the key around it.
 */
const LOST_KEY =
  /"(?:_|\\u005[fF]){2}(?:p|\\u0070)(?:r|\\u0072)(?:o|\\u006[fF])(?:t|\\u0074)(?:o|\\u006[fF])(?:_|\\u005[fF]){2}"\s*:|"(?:p|\\u0070)(?:r|\\u0072)(?:o|\\u006[fF])(?:t|\\u0074)(?:o|\\u006[fF])(?:t|\\u0074)(?:y|\\u0079)(?:p|\\u0070)(?:e|\\u0065)"\s*:/;

/**
 * A key that looks like an integer; a whole, tiny or exponent float; many digits. Also matches inside
 * strings.
 */
const MAY_DIFFER = /"(?:\d|\\u003)+"\s*:|\d\.0+(?!\d)|\b0\.0000|\d[eE][+-]?\d|\d{16}/;

function mayLose(value: unknown, places: Places): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (places === 'kept' || isPair(places)) return mayDiffer(value);
  if (Array.isArray(value)) {
    const item = places['each'];
    return item !== undefined && value.some((one) => mayLose(one, item));
  }
  for (const name in places) if (mayLose(value[name as keyof typeof value], places[name]!)) return true;
  return false;
}

/**
 * True if `JSON.parse` may have lost something: the spelling of a whole or tiny number, or the order of keys.
 */
function mayDiffer(value: unknown): boolean {
  if (typeof value === 'number') return Number.isInteger(value) || Math.abs(value) < 1e-4;
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some(mayDiffer);
  for (const name in value) if (isSortedKey(name) || mayDiffer(value[name as keyof typeof value])) return true;
  return false;
}

/** @param source text of the value */
function keep(value: unknown, place: Places, source: string): void {
  if (typeof value !== 'object' || value === null) return;
  const losesKeys = LOST_KEY.test(source);
  if (!losesKeys && (!mayLose(value, place) || !MAY_DIFFER.test(source))) return;
  const [isKept, within] = place === 'kept' ? [true, null] : isPair(place) ? [true, place[1]] : [false, place];
  if (isKept && (losesKeys || needsPythonValues(source))) TEXTS.set(value, source);
  if (within === null) return;
  if (Array.isArray(value)) {
    const item = within['each'];
    if (item !== undefined)
      eachItem(source, 0, (index, start, end) => keep(value[index], item, source.slice(start, end)));
    return;
  }
  // The last of repeated members counts.
  const written = new Map<string, string>();
  eachMember(source, 0, (name, start, end) => {
    if (Object.hasOwn(within, name)) written.set(name, source.slice(start, end));
  });
  for (const [name, text] of written) keep(value[name as keyof typeof value], within[name]!, text);
}

function isPair(place: Places): place is readonly ['kept', Within] {
  return Array.isArray(place);
}
