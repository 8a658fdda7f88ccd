import { pythonJson } from './python-json.ts';
import { MalformedReply } from './reply-text.ts';

const MAX_DEPTH = 64;

/**
 * Parses `f(a=1, b=['x', None])` into its name and its keyword arguments as JSON. Values are literals, tuples
 * become lists, keys are strings, and numbers keep their spelling.
 *
 * @throws {MalformedReply} for positional arguments and anything that is not a literal
 */
export function parsePythonCall(source: string): { name: string; arguments: string } {
  const scanner = new Scanner(source);
  const name = scanner.match(/[A-Za-z_][\w.]*/y);
  scanner.expect('(');
  const entries = new Map<string, string>();
  while (!scanner.accept(')')) {
    if (entries.size > 0) {
      scanner.expect(',');
      if (scanner.accept(')')) break;
    }
    const key = scanner.match(/[A-Za-z_]\w*/y);
    if (entries.has(key)) throw new MalformedReply(`argument ${key} twice`);
    scanner.expect('=');
    entries.set(key, literal(scanner, 0));
  }
  scanner.match(/$/y);
  return { name, arguments: objectSource(entries) };
}

/** Converts a Python literal to JSON; null for other text. */
export function pythonLiteralJson(source: string): string | null {
  try {
    const scanner = new Scanner(source);
    const json = literal(scanner, 0);
    scanner.match(/$/y);
    return json;
  } catch (error) {
    if (error instanceof MalformedReply) return null;
    throw error;
  }
}

class Scanner {
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  peek(): string {
    this.#skipSpace();
    return this.#source.charAt(this.#at);
  }

  accept(character: string): boolean {
    if (this.peek() !== character) return false;
    this.#at++;
    return true;
  }

  expect(character: string): void {
    if (!this.accept(character)) throw new MalformedReply(`expected ${character}`);
  }

  /** @param pattern sticky */
  match(pattern: RegExp): string {
    this.#skipSpace();
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source);
    if (found === null) throw new MalformedReply('expected a Python literal');
    this.#at += found[0].length;
    return found[0];
  }

  #skipSpace(): void {
    while (/\s/.test(this.#source.charAt(this.#at))) this.#at++;
  }
}

function literal(scanner: Scanner, depth: number): string {
  if (depth > MAX_DEPTH) throw new MalformedReply(`nested deeper than ${MAX_DEPTH}`);
  const opening = scanner.peek();
  if (opening === '"' || opening === "'") return pythonJson(string(scanner));
  if (opening === '[' || opening === '(') {
    scanner.expect(opening);
    return `[${items(scanner, opening === '[' ? ']' : ')', () => literal(scanner, depth + 1)).join(', ')}]`;
  }
  if (opening === '{') {
    scanner.expect(opening);
    const entries = items(scanner, '}', (): [string, string] => {
      const key = string(scanner);
      scanner.expect(':');
      return [key, literal(scanner, depth + 1)];
    });
    return objectSource(new Map(entries));
  }
  const word = scanner.match(/[-\w.+]+/y);
  const constant = CONSTANTS.get(word);
  if (constant !== undefined) return constant;
  if (!/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/.test(word)) throw new MalformedReply(`${word} is no literal`);
  return word;
}

const CONSTANTS: ReadonlyMap<string, string> = new Map([
  ['True', 'true'],
  ['False', 'false'],
  ['None', 'null'],
  ...['true', 'false', 'null'].map((name) => [name, name] as const),
]);

function items<Item>(scanner: Scanner, closing: string, read: () => Item): Item[] {
  const found: Item[] = [];
  while (!scanner.accept(closing)) {
    if (found.length > 0) {
      scanner.expect(',');
      if (scanner.accept(closing)) break;
    }
    found.push(read());
  }
  return found;
}

function objectSource(entries: ReadonlyMap<string, string>): string {
  return `{${Array.from(entries, ([key, value]) => `${pythonJson(key)}: ${value}`).join(', ')}}`;
}

const ESCAPE = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(\n)|([\\'"abfnrtv0]))/g;
const ESCAPED: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
  '0': '\0',
};

/**
 * Reads a string in single or double quotes; unknown escapes stay unchanged. It may contain line breaks, unlike
 * in Python: templates quote texts of earlier calls unescaped, so models do too.
 */
function string(scanner: Scanner): string {
  const source = scanner.match(/"[^"\\]*(?:\\[^][^"\\]*)*"|'[^'\\]*(?:\\[^][^'\\]*)*'/y).slice(1, -1);
  // oxlint-disable-next-line eslint/max-params -- the groups of the expression
  return source.replace(ESCAPE, (_, x?: string, u?: string, long?: string, newline?: string, letter = '') => {
    const digits = x ?? u ?? long;
    if (newline !== undefined) return '';
    if (digits === undefined) return ESCAPED[letter] ?? letter;
    const code = Number.parseInt(digits, 16);
    if (code > 0x10ffff) throw new MalformedReply('an escape beyond Unicode');
    return code > 0xffff ? String.fromCodePoint(code) : String.fromCharCode(code);
  });
}
