/**
 * Index at which a text stops being JSON (RFC 8259); its length if it ends too soon or is valid. V8's own
 * message often has no position, and jsonc-parser overflows the stack (docs/decisions/0017). Runs only after
 * `JSON.parse` has failed; one pass, no recursion.
 */
export function jsonFaultPosition(text: string): number {
  const scanner = new Scanner(text);
  const open: ('[' | '{')[] = [];
  let expected: 'value' | 'value or ]' | 'key' | 'key or }' | 'end of value' = 'value';
  for (;;) {
    scanner.skipSpace();
    const character = scanner.next;
    if (character === undefined) return text.length;
    switch (expected) {
      case 'key or }':
      case 'key':
        if (character === '}' && expected === 'key or }') {
          open.pop();
          scanner.position += 1;
          expected = 'end of value';
          break;
        }
        if (character !== '"' || !scanner.readString()) return scanner.position;
        scanner.skipSpace();
        if (scanner.next !== ':') return scanner.position;
        scanner.position += 1;
        expected = 'value';
        break;
      case 'value or ]':
      case 'value':
        if (character === ']' && expected === 'value or ]') {
          open.pop();
          scanner.position += 1;
          expected = 'end of value';
        } else if (character === '[' || character === '{') {
          open.push(character);
          scanner.position += 1;
          expected = character === '[' ? 'value or ]' : 'key or }';
        } else if (scanner.readScalar(character)) {
          expected = 'end of value';
        } else {
          return scanner.position;
        }
        break;
      case 'end of value': {
        const inside = open.at(-1);
        if (inside === undefined) return scanner.position;
        if (character === ',') expected = inside === '[' ? 'value' : 'key';
        else if (character === (inside === '[' ? ']' : '}')) open.pop();
        else return scanner.position;
        scanner.position += 1;
        break;
      }
      default:
        return expected satisfies never;
    }
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const LITERAL = /true|false|null/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

class Scanner {
  position = 0;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  get next(): string | undefined {
    return this.#text[this.position];
  }

  skipSpace(): void {
    while (this.next === ' ' || this.next === '\n' || this.next === '\r' || this.next === '\t') this.position += 1;
  }

  /** Reads a string, number or literal; on false, `position` is at the fault. */
  readScalar(first: string): boolean {
    return first === '"' ? this.readString() : this.#match(NUMBER) || this.#match(LITERAL);
  }

  readString(): boolean {
    this.position += 1;
    for (;;) {
      const character = this.next;
      if (character === undefined || character < ' ') return false;
      if (character === '"') {
        this.position += 1;
        return true;
      }
      if (character !== '\\') this.position += 1;
      else if (!this.#match(ESCAPE)) return false;
    }
  }

  #match(pattern: RegExp): boolean {
    pattern.lastIndex = this.position;
    if (!pattern.test(this.#text)) return false;
    this.position = pattern.lastIndex;
    return true;
  }
}
