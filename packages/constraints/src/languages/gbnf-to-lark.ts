import type { GbnfGrammar, GbnfNode } from './gbnf-grammar.ts';
import { larkString, regexCodePoint } from './lark-text.ts';

/**
 * Converts a GBNF grammar to Lark rules with the same language. Every terminal is one character, because
 * llguidance matches greedily: `" LIMIT "` would swallow the start of `" LEFT "`. Masks take up to 2 ms instead
 * of 0.1.
 *
 * @param ruleName distinct lower-case Lark name of each rule
 */
export function gbnfToLark(grammar: GbnfGrammar, ruleName: (name: string) => string): string {
  return Array.from(grammar, ([name, body]) => `${ruleName(name)}: ${expression(body, ruleName)}\n`).join('');
}

/** `start` for `root`, numbers for the others. */
export function numberedRules(grammar: GbnfGrammar, start: string, prefix: string): (name: string) => string {
  const numbers = new Map(Array.from(grammar.keys(), (name, index) => [name, index]));
  return (name) => (name === 'root' ? start : `${prefix}${numbers.get(name)}`);
}

function expression(node: GbnfNode, ruleName: (name: string) => string): string {
  switch (node.kind) {
    case 'literal':
      return node.codePoints.length === 0
        ? '""'
        : `(${node.codePoints.map((codePoint) => larkString(String.fromCodePoint(codePoint))).join(' ')})`;
    case 'class':
      return `/[${node.negated ? '^' : ''}${node.ranges.map(range).join('')}]/`;
    case 'any':
      return '/(?s:.)/';
    case 'reference':
      return ruleName(node.name);
    case 'sequence':
      return node.items.length === 0 ? '""' : `(${node.items.map((item) => expression(item, ruleName)).join(' ')})`;
    case 'alternatives':
      return `(${node.items.map((item) => expression(item, ruleName)).join(' | ')})`;
    case 'repetition':
      return `(${expression(node.item, ruleName)})${quantifier(node.least, node.most)}`;
    default:
      return node satisfies never;
  }
}

function quantifier(least: number, most: number): string {
  if (most === Infinity) return least === 0 ? '*' : least === 1 ? '+' : `{${least},}`;
  return least === 0 && most === 1 ? '?' : `{${least},${most}}`;
}

function range([first, last]: readonly [number, number]): string {
  return first === last ? regexCodePoint(first) : `${regexCodePoint(first)}-${regexCodePoint(last)}`;
}
