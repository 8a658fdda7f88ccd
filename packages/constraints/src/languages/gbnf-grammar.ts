import { ConstraintError } from '../contract/constraint-error.ts';
import { byteLength, checkLimit } from '../contract/limits.ts';
import { checkRulesEnd, type RuleBody } from './endless-rules.ts';

/** GBNF is also vLLM's EBNF. */
export type GbnfNode =
  | { kind: 'literal'; codePoints: readonly number[] }
  | { kind: 'class'; negated: boolean; ranges: readonly (readonly [number, number])[] }
  | { kind: 'any' }
  | { kind: 'reference'; name: string }
  | { kind: 'sequence'; items: readonly GbnfNode[] }
  | { kind: 'alternatives'; items: readonly GbnfNode[] }
  | { kind: 'repetition'; item: GbnfNode; least: number; most: number };

export type GbnfGrammar = ReadonlyMap<string, GbnfNode>;

/**
 * Parses GBNF: `name ::= "literal" [class] . other-rule ( … ) | …` with `* + ? {m,n}`, `#` comments, one rule
 * per line (more lines inside parentheses and after `|`).
 *
 * @throws {ConstraintError} `constraint.invalid` with the line, `constraint.too_large`
 */
export function parseGbnf(source: string, root = 'root'): GbnfGrammar {
  checkLimit('grammarBytes', byteLength(source));
  const grammar = new GbnfParser(source).run();
  if (!grammar.has(root)) throw new ConstraintError('constraint.invalid', `the grammar has no rule "${root}"`);
  for (const [name, body] of grammar) checkReferences(name, body, grammar);
  checkRulesEnd(root, new Map(Array.from(grammar, ([name, body]) => [name, recursionOf(body)])));
  return grammar;
}

function recursionOf(node: GbnfNode): RuleBody {
  switch (node.kind) {
    case 'literal':
    case 'class':
    case 'any':
      return { kind: 'all', parts: [] };
    case 'reference':
      return { kind: 'rule', name: node.name };
    case 'sequence':
      return { kind: 'all', parts: node.items.map(recursionOf) };
    case 'alternatives':
      return { kind: 'any', parts: node.items.map(recursionOf) };
    case 'repetition':
      return node.least === 0
        ? { kind: 'any', parts: [{ kind: 'all', parts: [] }, recursionOf(node.item)] }
        : recursionOf(node.item);
    default:
      return node satisfies never;
  }
}

function checkReferences(rule: string, node: GbnfNode, grammar: GbnfGrammar): void {
  if (node.kind === 'reference' && !grammar.has(node.name)) {
    throw new ConstraintError(
      'constraint.invalid',
      `rule "${rule}" of the grammar uses "${node.name}", which is not defined`,
    );
  }
  if (node.kind === 'repetition') checkReferences(rule, node.item, grammar);
  if ('items' in node) for (const item of node.items) checkReferences(rule, item, grammar);
}

const NAME = /[A-Za-z_][A-Za-z0-9_.-]*/y;
const REPETITION = /\{\s*(\d*)\s*(,?)\s*(\d*)\s*\}/y;
const ESCAPES: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9 };

class GbnfParser {
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  run(): Map<string, GbnfNode> {
    const rules = new Map<string, GbnfNode>();
    for (this.#skip(true); this.#at < this.#source.length; this.#skip(true)) {
      const name = this.#match(NAME);
      if (name === undefined) throw this.#invalid('the name of a rule is expected');
      this.#skip(false);
      if (!this.#take('::=')) throw this.#invalid(`"::=" is expected after "${name}"`);
      this.#skip(true);
      if (rules.has(name)) throw this.#invalid(`rule "${name}" is defined twice`);
      checkLimit('grammarRules', rules.size + 1);
      rules.set(name, this.#alternatives(false, 0));
      if (this.#source[this.#at] === ')') throw this.#invalid('a ")" without its "("');
    }
    return rules;
  }

  #alternatives(isNested: boolean, depth: number): GbnfNode {
    checkLimit('grammarDepth', depth);
    const items = [this.#sequence(isNested, depth)];
    for (this.#skip(isNested); this.#take('|'); this.#skip(isNested)) {
      this.#skip(true);
      items.push(this.#sequence(isNested, depth));
    }
    return items.length === 1 ? items[0]! : { kind: 'alternatives', items };
  }

  #sequence(isNested: boolean, depth: number): GbnfNode {
    const items: GbnfNode[] = [];
    for (;;) {
      this.#skip(isNested);
      const item = this.#item(depth);
      if (item === undefined) break;
      items.push(this.#repeated(item));
    }
    return items.length === 1 ? items[0]! : { kind: 'sequence', items };
  }

  #item(depth: number): GbnfNode | undefined {
    const start = this.#at;
    const character = this.#source[start];
    if (character === undefined || '|)\r\n'.includes(character)) return undefined;
    if (this.#take('"')) return this.#literal();
    if (this.#take('[')) return this.#class();
    if (this.#take('.')) return { kind: 'any' };
    if (this.#take('(')) {
      this.#skip(true);
      const inner = this.#alternatives(true, depth + 1);
      this.#skip(true);
      if (!this.#take(')')) throw this.#invalid('")" is expected');
      // Wrapped, so that a following quantifier applies to the whole.
      return inner.kind === 'repetition' ? { kind: 'sequence', items: [inner] } : inner;
    }
    const name = this.#match(NAME);
    if (name === undefined) throw this.#invalid(`${JSON.stringify(character)} is not expected here`);
    const end = this.#at;
    this.#skip(false);
    const startsNextRule = this.#source.startsWith('::=', this.#at);
    this.#at = startsNextRule ? start : end;
    return startsNextRule ? undefined : { kind: 'reference', name };
  }

  #repeated(item: GbnfNode): GbnfNode {
    let node = item;
    for (;;) {
      if (this.#take('*')) node = { kind: 'repetition', item: node, least: 0, most: Infinity };
      else if (this.#take('+')) node = { kind: 'repetition', item: node, least: 1, most: Infinity };
      else if (this.#take('?')) node = { kind: 'repetition', item: node, least: 0, most: 1 };
      else if (this.#source[this.#at] === '{') node = this.#counted(node);
      else return node;
    }
  }

  #counted(item: GbnfNode): GbnfNode {
    REPETITION.lastIndex = this.#at;
    const [text, first = '', comma = '', second = ''] = REPETITION.exec(this.#source) ?? [];
    if (text === undefined || (first === '' && second === ''))
      throw this.#invalid('{m}, {m,}, {,n} or {m,n} is expected');
    this.#at += text.length;
    const least = first === '' ? 0 : Number(first);
    const most = comma === '' ? least : second === '' ? Infinity : Number(second);
    checkLimit('repetitions', most === Infinity ? least : Math.max(least, most));
    if (most < least) throw this.#invalid(`"${text}" is out of order`);
    return { kind: 'repetition', item, least, most };
  }

  #literal(): GbnfNode {
    const codePoints: number[] = [];
    while (!this.#take('"')) codePoints.push(this.#character());
    return { kind: 'literal', codePoints };
  }

  #class(): GbnfNode {
    const negated = this.#take('^');
    const ranges: [number, number][] = [];
    while (!this.#take(']')) {
      const first = this.#character();
      const isRange = this.#source[this.#at] === '-' && this.#source[this.#at + 1] !== ']';
      if (isRange) this.#at++;
      const last = isRange ? this.#character() : first;
      if (last < first) throw this.#invalid('a range of characters is out of order');
      ranges.push([first, last]);
    }
    if (ranges.length === 0) throw this.#invalid('a class of characters is empty');
    return { kind: 'class', negated, ranges };
  }

  #character(): number {
    const codePoint = this.#source.codePointAt(this.#at);
    if (codePoint === undefined) throw this.#invalid('a literal or a class does not end');
    if (codePoint >= 0xd800 && codePoint <= 0xdfff) throw this.#invalid('half a surrogate pair');
    this.#at += codePoint > 0xffff ? 2 : 1;
    return codePoint === 0x5c ? this.#escape() : codePoint;
  }

  #escape(): number {
    const escaped = this.#source[this.#at++] ?? '';
    const digits = { x: 2, u: 4, U: 8 }[escaped];
    if (digits !== undefined) {
      const text = this.#source.slice(this.#at, this.#at + digits);
      const codePoint = /^[0-9a-fA-F]+$/.test(text) && text.length === digits ? Number.parseInt(text, 16) : NaN;
      if (!(codePoint <= 0x10ffff) || (codePoint >= 0xd800 && codePoint <= 0xdfff)) {
        throw this.#invalid(`"\\${escaped}${text}" is not a character`);
      }
      this.#at += digits;
      return codePoint;
    }
    if (escaped in ESCAPES) return ESCAPES[escaped]!;
    if (escaped === '' || /[A-Za-z0-9\s]/.test(escaped)) throw this.#invalid(`unknown escape "\\${escaped}"`);
    return escaped.charCodeAt(0);
  }

  #skip(acrossLines: boolean): void {
    for (;;) {
      const character = this.#source[this.#at];
      if (character === ' ' || character === '\t' || (acrossLines && (character === '\n' || character === '\r'))) {
        this.#at++;
      } else if (character === '#') {
        while (this.#at < this.#source.length && this.#source[this.#at] !== '\n') this.#at++;
      } else {
        return;
      }
    }
  }

  #match(expression: RegExp): string | undefined {
    expression.lastIndex = this.#at;
    const found = expression.exec(this.#source)?.[0];
    this.#at += found?.length ?? 0;
    return found;
  }

  #take(text: string): boolean {
    const isThere = this.#source.startsWith(text, this.#at);
    if (isThere) this.#at += text.length;
    return isThere;
  }

  #invalid(reason: string): ConstraintError {
    const line = this.#source.slice(0, this.#at).split('\n').length;
    return new ConstraintError('constraint.invalid', `line ${line} of the grammar: ${reason}`);
  }
}
