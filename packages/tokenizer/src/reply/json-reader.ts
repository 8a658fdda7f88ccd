import { MalformedReply, ReplyText, type Reading } from './reply-text.ts';

const PLAIN_CHARACTERS = /[ !#-[\]-\uffff]+/y; // all except quotes, backslashes and control characters
const SCALAR_CHARACTERS = /[-+.0-9A-Za-z]+/y;
const SCALAR = /^(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null)$/;
const HEX_DIGIT = /^[0-9a-fA-F]$/;

/**
 * Reads one JSON value and rewrites it incrementally in Python's spacing (`{"a": 1, "b": [2]}`): characters
 * beyond ASCII unescaped, numbers in their spelling. Nesting takes no stack.
 *
 * @throws {MalformedReply} if it is not JSON, or ends early
 * @see Python, json.dumps(value, ensure_ascii=False)
 */
export function* rewriteJson(text: ReplyText, write: (fragment: string) => void): Reading {
  const open: ('}' | ']')[] = []; // closing brackets of the open containers
  let isFirst = false;
  let needsValue = true;
  do {
    const character = yield* text.skipSpace();
    const closing = open.at(-1);
    if (character === closing && (isFirst || !needsValue)) {
      text.skip(1);
      write(character);
      open.pop();
      needsValue = isFirst = false;
    } else if (needsValue) {
      if (closing === '}') {
        yield* rewriteString(text, write);
        yield* text.skipSpace();
        yield* text.expect(':');
        write(': ');
      }
      const opened = yield* rewriteOpeningOrScalar(text, write);
      if (opened !== null) open.push(opened);
      needsValue = isFirst = opened !== null;
    } else {
      yield* text.expect(',');
      write(', ');
      needsValue = true;
    }
  } while (open.length > 0);
}

/** Rewrites a whole JSON text. @throws {MalformedReply} */
export function rewriteJsonText(source: string): string {
  const text = new ReplyText();
  text.append(source);
  text.end();
  let json = '';
  const reading = rewriteJson(text, (fragment) => (json += fragment));
  if (reading.next().done !== true) throw new MalformedReply('JSON that does not end');
  return json;
}

/** @returns the closing bracket of the container, if it opened one */
function* rewriteOpeningOrScalar(text: ReplyText, write: (fragment: string) => void): Reading<'}' | ']' | null> {
  const character = yield* text.skipSpace();
  if (character === '{' || character === '[') {
    text.skip(1);
    write(character);
    return character === '{' ? '}' : ']';
  }
  if (character === '"') {
    yield* rewriteString(text, write);
    return null;
  }
  const scalar = yield* text.takeAll(SCALAR_CHARACTERS);
  write(scalar);
  if (!SCALAR.test(scalar)) throw new MalformedReply('expected a JSON value');
  return null;
}

/** @throws {MalformedReply} */
export function* readJsonString(text: ReplyText): Reading<string> {
  let source = '';
  yield* rewriteString(text, (fragment) => (source += fragment));
  return JSON.parse(source) as string;
}

function* rewriteString(text: ReplyText, write: (fragment: string) => void): Reading {
  yield* text.expect('"');
  write('"');
  let high = ''; // an escaped high surrogate waiting for its other half
  for (;;) {
    const plain = text.take(PLAIN_CHARACTERS);
    if (plain !== '') {
      write(escaped(high) + plain);
      high = '';
    }
    const character = yield* text.peek();
    if (character === '') throw new MalformedReply('a string that is not closed');
    if (character === '"') break;
    if (character !== '\\') {
      if (character < ' ') throw new MalformedReply('a control character in a string');
      continue;
    }
    text.skip(1);
    const unit = yield* readEscape(text);
    if (high !== '' && /[\udc00-\udfff]/.test(unit)) {
      write(high + unit);
      high = '';
      continue;
    }
    write(escaped(high));
    high = /[\ud800-\udbff]/.test(unit) ? unit : '';
    if (high === '') write(escaped(unit));
  }
  text.skip(1);
  write(`${escaped(high)}"`);
}

const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

/** Reads an escape after its backslash. @returns one UTF-16 unit */
function* readEscape(text: ReplyText): Reading<string> {
  const letter = yield* text.next();
  if (letter !== 'u') {
    const unit = ESCAPES[letter];
    if (unit === undefined) throw new MalformedReply('an unknown escape in a string');
    return unit;
  }
  let digits = '';
  while (digits.length < 4) {
    const digit = yield* text.peek();
    if (!HEX_DIGIT.test(digit)) throw new MalformedReply('an escape without four digits');
    text.skip(1);
    digits += digit;
  }
  return String.fromCharCode(Number.parseInt(digits, 16));
}

function escaped(unit: string): string {
  return JSON.stringify(unit).slice(1, -1);
}
