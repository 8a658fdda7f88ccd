import type { RuleBody } from './endless-rules.ts';

const TOKEN =
  /(?<text>"(?:\\.|[^"\\\n])*"i?|\/(?:\\.|[^/\\\n])+\/[a-z]*|<[^>\n]*>|@[\w./-]+)|(?<blank>[ \t\r]+|(?:#|\/\/)[^\n]*|->[ \t]*\w+)|(?<line>\n)|(?<name>[!?]*[A-Za-z_][\w-]*)|(?<count>~[ \t]*\d+(?:[ \t]*\.\.[ \t]*\d+)?|\{[ \t]*\d*[ \t]*,?[ \t]*\d*[ \t]*\}|[*+?])|(?<other>%[a-z]+|\.\.|\.?\d+|[:|()[\]=,])/y;

interface Token {
  kind: 'text' | 'line' | 'name' | 'count' | 'other';
  text: string;
}

/** One-line directives; others have bodies in another language. */
const LINE_DIRECTIVES: readonly string[] = ['%import', '%ignore', '%declare'];

/**
 * Needs of a Lark grammar's rules among each other; terminals need none. Null for deeply nested groups and
 * constructs other than names, texts, groups and counts (`%lark`, templates): these are not checked.
 */
export function larkRecursion(source: string): ReadonlyMap<string, RuleBody> | null {
  const tokens = tokensOf(source);
  if (tokens === null) return null;
  const rules = new Map<string, RuleBody>();
  let at = 0;
  while (at < tokens.length) {
    if (tokens[at]!.kind === 'line') at++;
    else if (LINE_DIRECTIVES.includes(tokens[at]!.text)) at = endOfLine(tokens, at);
    else {
      const body = bodyStart(tokens, at);
      if (body === null) return null;
      const end = endOfRule(tokens, body);
      const parser = new BodyParser(tokens.slice(body, end).filter(({ kind }) => kind !== 'line'));
      const parsed = parser.whole();
      if (parsed === null) return null;
      rules.set(tokens[at]!.text.replace(/^[!?]+/, ''), parsed);
      at = end;
    }
  }
  return rules;
}

function tokensOf(source: string): Token[] | null {
  const tokens: Token[] = [];
  for (let at = 0; at < source.length; at = TOKEN.lastIndex) {
    TOKEN.lastIndex = at;
    const { groups } = TOKEN.exec(source) ?? {};
    if (groups === undefined) return null;
    for (const kind of ['text', 'line', 'name', 'count', 'other'] as const)
      if (groups[kind] !== undefined) tokens.push({ kind, text: groups[kind] });
  }
  return tokens;
}

/** Token after `name:`, `name[attributes]:` or `name.priority:`; null if no rule starts here. */
function bodyStart(tokens: readonly Token[], start: number): number | null {
  if (tokens[start]?.kind !== 'name') return null;
  for (let at = start + 1; at < tokens.length && tokens[at]!.kind !== 'line'; at++) {
    const { text } = tokens[at]!;
    if (text === ':') return at + 1;
    if (text === '|' || text === '(') return null;
  }
  return null;
}

/** A rule ends at the next line that starts another rule or a directive. */
function endOfRule(tokens: readonly Token[], start: number): number {
  let depth = 0;
  for (let at = start; at < tokens.length; at++) {
    const { kind, text } = tokens[at]!;
    if (text === '(' || text === '[') depth++;
    if (text === ')' || text === ']') depth--;
    if (kind !== 'line' || depth > 0) continue;
    const next = tokens[at + 1];
    if (next === undefined || next.text.startsWith('%') || bodyStart(tokens, at + 1) !== null) return at;
  }
  return tokens.length;
}

function endOfLine(tokens: readonly Token[], start: number): number {
  const end = tokens.findIndex(({ kind }, index) => index > start && kind === 'line');
  return end < 0 ? tokens.length : end;
}

const MAX_DEPTH = 100;
const NOTHING: RuleBody = { kind: 'all', parts: [] };

class BodyParser {
  readonly #tokens: readonly Token[];
  #at = 0;
  #depth = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  whole(): RuleBody | null {
    const body = this.#alternatives();
    return this.#at === this.#tokens.length ? body : null;
  }

  #alternatives(): RuleBody {
    const parts = [this.#sequence()];
    while (this.#accept('|')) parts.push(this.#sequence());
    return { kind: 'any', parts };
  }

  #sequence(): RuleBody {
    const parts: RuleBody[] = [];
    for (let item = this.#item(); item !== null; item = this.#item()) parts.push(this.#counted(item));
    return { kind: 'all', parts };
  }

  #item(): RuleBody | null {
    const token = this.#tokens[this.#at];
    if (token === undefined) return null;
    if (token.kind === 'text') {
      this.#at++;
      // A range of characters: "a".."z".
      if (this.#accept('..')) this.#at++;
      return NOTHING;
    }
    if (token.kind === 'name') {
      this.#at++;
      return /^_*[A-Z]/.test(token.text) ? NOTHING : { kind: 'rule', name: token.text };
    }
    if ((token.text !== '(' && token.text !== '[') || this.#depth === MAX_DEPTH) return null;
    this.#at++;
    this.#depth++;
    const inner = this.#alternatives();
    this.#depth--;
    if (!this.#accept(token.text === '(' ? ')' : ']')) return null;
    return token.text === '[' ? { kind: 'any', parts: [NOTHING, inner] } : inner;
  }

  #counted(item: RuleBody): RuleBody {
    let counted = item;
    for (let token = this.#tokens[this.#at]; token?.kind === 'count'; token = this.#tokens[this.#at]) {
      this.#at++;
      if (/^[*?]$|^[~{][ \t]*(?:0|,)/.test(token.text)) counted = { kind: 'any', parts: [NOTHING, counted] };
    }
    return counted;
  }

  #accept(text: string): boolean {
    if (this.#tokens[this.#at]?.text !== text) return false;
    this.#at++;
    return true;
  }
}
