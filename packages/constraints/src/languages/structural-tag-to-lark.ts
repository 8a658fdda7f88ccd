import { choiceTerminal } from './choice-terminal.ts';
import { ConstraintError } from '../contract/constraint-error.ts';
import { translateRegex } from './ecma-regex.ts';
import { parseGbnf } from './gbnf-grammar.ts';
import { gbnfToLark, numberedRules } from './gbnf-to-lark.ts';
import { jsonSchemaSource } from './json-schema.ts';
import { checkGrammar, larkSource } from './lark-source.ts';
import { larkString, regexLiteral } from './lark-text.ts';
import type { TagElement, TagFormat, TriggeredTags } from './structural-tag.ts';

/** @param resolveToken id of a token given by id or by a control token's text; throws if it does not exist */
export function structuralTagToLark(format: TagFormat, resolveToken: (token: number | string) => number): string {
  return new TagWriter(resolveToken).run(format);
}

/** Follow set of a format. */
type Follow = { kind: 'end' } | { kind: 'texts'; texts: readonly string[] } | { kind: 'other' };

/** A Lark expression; with `hasFollow` it includes the following texts. */
interface Written {
  readonly lark: string;
  readonly hasFollow: boolean;
}

const END: Follow = { kind: 'end' };
const OTHER: Follow = { kind: 'other' };

class TagWriter {
  readonly #resolveToken: (token: number | string) => number;
  readonly #rules: string[] = [];
  #numNames = 0;

  constructor(resolveToken: (token: number | string) => number) {
    this.#resolveToken = resolveToken;
  }

  run(format: TagFormat): string {
    const start = this.#write(format, END);
    return `start: ${start.lark}\n${this.#rules.join('')}`;
  }

  #write(format: TagFormat, follow: Follow): Written {
    switch (format.kind) {
      case 'const_string':
        return plain(text(format.value));
      case 'json_schema':
        return plain(this.#rule(`%json ${jsonSchemaSource(format.schema, format)}`));
      case 'any_text': {
        const free = this.#terminal(freeText(format.excludes, format.maxChars));
        return this.#openEnded(free, follow);
      }
      case 'regex':
        return this.#regex(format.pattern, follow);
      case 'grammar':
        return plain(this.#grammar(format.source));
      case 'choice': {
        const { terminal, hasEmpty } = choiceTerminal(format.choices);
        const texts = terminal === null ? [] : [this.#terminal(terminal)];
        return plain(alternatives(hasEmpty ? [...texts, '""'] : texts));
      }
      case 'sequence':
        return this.#sequence(format.elements, follow);
      case 'or':
        return together(
          format.elements.map((element) => this.#write(element, follow)),
          follow,
        );
      case 'repeat': {
        const { least, most } = format;
        const content = this.#write(format.content, OTHER).lark;
        return plain(`(${content}){${least},${most === Infinity ? '' : most}}`);
      }
      case 'tag':
        return this.#tag(format, follow);
      case 'triggered':
        return this.#triggered(format, follow);
      case 'tags_with_separator': {
        const tag = alternatives(format.tags.map((element) => this.#tag(element, OTHER).lark));
        const more = format.separator === '' ? tag : `${larkString(format.separator)} ${tag}`;
        const tags = format.stopAfterFirst ? tag : `(${tag} (${more})*)`;
        return plain(format.atLeastOne ? tags : `(${tags})?`);
      }
      case 'token':
        return plain(`<[${this.#resolveToken(format.token)}]>`);
      default:
        return format satisfies never;
    }
  }

  #tag({ begin, content, ends }: TagElement, follow: Follow): Written {
    if (ends.length === 1 && ends[0] === '') {
      const inner = this.#write(content, follow);
      return { lark: `(${text(begin)} ${inner.lark})`, hasFollow: inner.hasFollow };
    }
    const inner = this.#write(content, ends.includes('') ? OTHER : { kind: 'texts', texts: ends });
    return plain(`(${text(begin)} ${inner.lark} ${inner.hasFollow ? '' : alternatives(ends.map(text))})`);
  }

  #sequence(elements: readonly TagFormat[], follow: Follow): Written {
    const parts: string[] = [];
    let hasText = false; // true if the previous element includes this one's first text
    for (const [index, element] of elements.entries()) {
      const next = elements[index + 1];
      const written = this.#write(
        hasText ? withoutStart(element) : element,
        next === undefined ? follow : startOf(next),
      );
      parts.push(written.lark);
      hasText = written.hasFollow;
    }
    return { lark: `(${parts.join(' ')})`, hasFollow: hasText };
  }

  /** Includes the following texts in the terminal, so that the expression does not swallow them. */
  #regex(pattern: string, follow: Follow): Written {
    if (pattern === '') return plain('""');
    const body = `/(?:${translateRegex(pattern, 'pattern')})/`;
    if (follow.kind !== 'texts') return plain(this.#terminal(body));
    return { lark: this.#terminal(`${body} ${alternatives(follow.texts.map(text))}`), hasFollow: true };
  }

  /** Text up to the first of the following texts, or up to the end. */
  #openEnded(terminal: string, follow: Follow): Written {
    switch (follow.kind) {
      case 'end':
        return plain(terminal);
      case 'texts':
        return { lark: this.#lazyRule(`${terminal} ${alternatives(follow.texts.map(text))}`), hasFollow: true };
      case 'other':
        throw new ConstraintError(
          'constraint.unsupported',
          'free text that is followed by neither a fixed text nor the end is not supported in structural tags',
        );
      default:
        return follow satisfies never;
    }
  }

  #grammar(source: string): string {
    checkGrammar(source);
    if (!source.includes('::=')) return this.#rule(`%lark {\n${larkSource(source)}\n}`);
    const grammar = parseGbnf(source);
    const prefix = this.#name('g');
    this.#rules.push(gbnfToLark(grammar, numberedRules(grammar, `${prefix}_root`, `${prefix}_`)));
    return `${prefix}_root`;
  }

  #triggered({ branches, excludes, first, stopAfterFirst }: TriggeredTags, follow: Follow): Written {
    const beforeTag = first.length === 0 ? undefined : alternatives(first.map((tag) => this.#tag(tag, OTHER).lark));
    if (beforeTag !== undefined && stopAfterFirst) return plain(beforeTag);
    const triggers = [...new Set(branches.map(({ trigger }) => trigger))];
    const ends = follow.kind === 'texts' ? follow.texts : [];
    const free = this.#terminal(freeText([...triggers, ...ends, ...excludes], undefined));
    const tags = alternatives(
      triggers.map((trigger) => {
        const head = this.#lazyRule(`${free} ${larkString(trigger)}`);
        const rests = branches
          .filter((branch) => branch.trigger === trigger)
          .map(({ rest }) => this.#write(rest, OTHER).lark);
        return `(${head} ${alternatives(rests)})`;
      }),
    );
    const tail = this.#openEnded(free, follow);
    if (stopAfterFirst) return together([plain(tags), tail], follow);
    return { lark: `(${beforeTag ?? ''} ${tags}* ${tail.lark})`, hasFollow: tail.hasFollow };
  }

  #rule(body: string): string {
    const name = this.#name('r');
    this.#rules.push(`${name}: ${body}\n`);
    return name;
  }

  /** Matches as little as possible. */
  #lazyRule(body: string): string {
    const name = this.#name('r');
    this.#rules.push(`${name}[lazy]: ${body}\n`);
    return name;
  }

  #terminal(body: string): string {
    const name = this.#name('T');
    this.#rules.push(`${name}: ${body}\n`);
    return name;
  }

  #name(prefix: string): string {
    return `${prefix}${this.#numNames++}`;
  }
}

function plain(lark: string): Written {
  return { lark, hasFollow: false };
}

/** A choice. If one part includes the following texts, all get them. */
function together(parts: readonly Written[], follow: Follow): Written {
  const hasFollow = parts.some((part) => part.hasFollow);
  if (!hasFollow || follow.kind !== 'texts') return plain(alternatives(parts.map((part) => part.lark)));
  const after = alternatives(follow.texts.map(text));
  return { lark: alternatives(parts.map((part) => (part.hasFollow ? part.lark : `${part.lark} ${after}`))), hasFollow };
}

function startOf(format: TagFormat): Follow {
  const start = format.kind === 'const_string' ? format.value : format.kind === 'tag' ? format.begin : '';
  return start === '' ? OTHER : { kind: 'texts', texts: [start] };
}

function withoutStart(format: TagFormat): TagFormat {
  if (format.kind === 'const_string') return { ...format, value: '' };
  return format.kind === 'tag' ? { ...format, begin: '' } : format;
}

function text(value: string): string {
  return value === '' ? '""' : larkString(value);
}

function alternatives(options: readonly string[]): string {
  return `(${options.join(' | ')})`;
}

/** Any text without these substrings. */
function freeText(excludes: readonly string[], maxChars: number | undefined): string {
  const any = maxChars === undefined ? '/(?s:.*)/' : `/(?s:.{0,${maxChars}})/`;
  if (excludes.length === 0) return any;
  return `${any} & ~/(?s:.*)(?:${excludes.map(regexLiteral).join('|')})(?s:.*)/`;
}
