import { needsPythonValues } from '@trainyard/generation';
import { isSortedKey } from '@trainyard/protocol/json';

import { eachItem, eachMember } from './json-scan.ts';
import { JsonText } from './ordered-json.ts';

/**
 * Where a body holds values of its client's own: the names of members on the way to them, `each` for those of a list. A value with places in it may be
 * kept, too.
 */
type Places = Within | 'kept' | readonly ['kept', Within];
interface Within {
  readonly [name: string]: Places;
}

const MEMBER: Within = { function: { parameters: 'kept' }, parameters: 'kept', input_schema: 'kept' };
/** A tool, or a namespace of some. */
const TOOL: Within = { ...MEMBER, tools: { each: MEMBER } };
/** Members beside those of the schema reach templates, too. */
const TOOLS: Within = { each: ['kept', TOOL] };
/** Values that templates are given besides the messages. */
const VARIABLES: Within = { tools: TOOLS, chat_template_kwargs: 'kept' };
const CALLS: Places = { each: { function: { arguments: 'kept' }, args: 'kept' } };
const MESSAGES = { each: { tool_calls: CALLS, tools: TOOLS } };
const CHOICES = { each: { message: { tool_calls: CALLS } } };
const HISTORY: Within = { ...VARIABLES, messages_and_choices: { each: { ...MESSAGES.each, ...CHOICES.each } } };
const EXCHANGE: Within = { request: { ...VARIABLES, messages: MESSAGES }, response: { choices: CHOICES } };
/** The parts of a message in the form of the Messages API. */
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
  // A group by itself, as it is stored.
  trajectories: { each: TRAJECTORY },
};

const TEXTS = new WeakMap<object, string>();

/** The text that a value of a body was read from; null where `JSON.parse` loses nothing of it, or the body has no such value there. */
export function sourceTextOf(value: unknown): string | null {
  return typeof value === 'object' && value !== null ? (TEXTS.get(value) ?? null) : null;
}

/** Remembers the text of a value that was put together from others. */
export function keepSourceText(value: object, text: string): void {
  TEXTS.set(value, text);
}

/** For `toOrderedJson`: the value, or its text where `JSON.parse` loses something of it. */
export function asWritten(value: unknown): unknown {
  const text = sourceTextOf(value);
  return text === null ? value : new JsonText(text);
}

/**
 * Remembers the texts of those values of a body that are read otherwise than Python does: digits beyond 2^53, `1.0`, keys that look like integers, and keys
 * that bodies are read without (`__proto__`). A pass over the text is made if one of them has a number or a key that may have been written so.
 *
 * @param body as parsed from `text`
 */
export function keepSourceTexts(body: unknown, text: string): void {
  if (mayLose(body, PLACES) || LOST_KEY.test(text)) keep(body, PLACES, text);
}

/** A key that `secure-json-parse` removes, in any spelling, or one that may make it remove the key around it. */
const LOST_KEY =
  /"(?:_|\\u005[fF]){2}(?:p|\\u0070)(?:r|\\u0072)(?:o|\\u006[fF])(?:t|\\u0074)(?:o|\\u006[fF])(?:_|\\u005[fF]){2}"\s*:|"(?:p|\\u0070)(?:r|\\u0072)(?:o|\\u006[fF])(?:t|\\u0074)(?:o|\\u006[fF])(?:t|\\u0074)(?:y|\\u0079)(?:p|\\u0070)(?:e|\\u0065)"\s*:/;

/** A key that looks like an integer, a float that is one, is tiny, or has an exponent, many digits; in a string, too. */
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

/** True where `JSON.parse` may have lost something: of a number that is whole, which may have been written as a float, or tiny; of keys their order. */
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
  // Of members of one name the last counts.
  const written = new Map<string, string>();
  eachMember(source, 0, (name, start, end) => {
    if (Object.hasOwn(within, name)) written.set(name, source.slice(start, end));
  });
  for (const [name, text] of written) keep(value[name as keyof typeof value], within[name]!, text);
}

function isPair(place: Places): place is readonly ['kept', Within] {
  return Array.isArray(place);
}
