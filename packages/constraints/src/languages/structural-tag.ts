import { parseInOrder } from '@trainyard/protocol/json';
import { ConstraintError } from '../contract/constraint-error.ts';
import type { WhitespaceOption } from '../contract/constraint-spec.ts';
import { byteLength, checkLimit } from '../contract/limits.ts';

/** A parsed structural tag; unsupported parts were refused. */
export type TagFormat =
  | { kind: 'const_string'; value: string }
  | { kind: 'json_schema'; schema: unknown; whitespace: WhitespaceOption; closesObjects: boolean }
  | { kind: 'any_text'; excludes: readonly string[]; maxChars: number | undefined }
  | { kind: 'regex'; pattern: string }
  | { kind: 'grammar'; source: string }
  | { kind: 'choice'; choices: readonly string[] }
  | { kind: 'sequence' | 'or'; elements: readonly TagFormat[] }
  | { kind: 'repeat'; content: TagFormat; least: number; most: number }
  | TagElement
  | TriggeredTags
  | {
      kind: 'tags_with_separator';
      tags: readonly TagElement[];
      separator: string;
      atLeastOne: boolean;
      stopAfterFirst: boolean;
    }
  | { kind: 'token'; token: number | string };

export interface TagElement {
  kind: 'tag';
  begin: string;
  content: TagFormat;
  /** Any of these texts ends the tag. */
  ends: readonly string[];
}

/** Each occurrence of a trigger starts its branch. */
export interface TriggeredTags {
  kind: 'triggered';
  branches: readonly { trigger: string; rest: TagFormat }[];
  excludes: readonly string[];
  /** If nonempty, the text starts with one of these. */
  first: readonly TagElement[];
  stopAfterFirst: boolean;
}

/** @throws {ConstraintError} `constraint.invalid`, or `constraint.unsupported` with the kind or field */
export function parseStructuralTag(tag: unknown): TagFormat {
  const value = typeof tag === 'string' ? parseText(tag) : tag;
  const parser = new TagParser();
  checkJson(value);
  const root = new Fields(value, 'structural tag');
  if (root.has('structures')) return parser.legacy(root);
  root.expect(['type', 'format']);
  return parser.format(root.get('format'), 1);
}

function schemaFormat(schema: unknown, maxWhitespace: number | undefined): TagFormat {
  const whitespace: WhitespaceOption =
    maxWhitespace === undefined
      ? { kind: 'capped' }
      : { kind: 'pattern', pattern: maxWhitespace === 0 ? '' : `[ \\t\\r\\n]{1,${maxWhitespace}}` };
  return { kind: 'json_schema', schema, whitespace, closesObjects: false };
}

function parseText(text: string): unknown {
  checkLimit('specBytes', byteLength(text));
  try {
    return parseInOrder(text);
  } catch (error) {
    throw invalid(`the structural tag is not JSON: ${(error as Error).message}`);
  }
}

/** Bounds the depth before any recursion: formats take two levels each, a schema inside its own. */
function checkJson(value: unknown): void {
  const open: [unknown, number][] = [[value, 1]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [node, depth] = next;
    if (typeof node !== 'object' || node === null) continue;
    if (depth > 128) checkLimit('schemaDepth', depth);
    for (const child of Object.values(node)) open.push([child, depth + 1]);
  }
  checkLimit('specBytes', byteLength(JSON.stringify(value) ?? ''));
}

class TagParser {
  #numFormats = 0;

  legacy(root: Fields): TagFormat {
    root.expect(['type', 'structures', 'triggers']);
    const triggers = root.strings('triggers');
    const tags = root.list('structures').map((item): TagElement => {
      checkLimit('tagFormats', ++this.#numFormats);
      const structure = new Fields(item, 'structure');
      structure.expect(['begin', 'schema', 'end']);
      const content = schemaFormat(structure.get('schema'), undefined);
      return { kind: 'tag', begin: structure.string('begin'), content, ends: [structure.string('end')] };
    });
    return triggered(triggers, tags, { excludes: [], atLeastOne: false, stopAfterFirst: false });
  }

  format(value: unknown, depth: number): TagFormat {
    checkLimit('tagDepth', depth);
    checkLimit('tagFormats', ++this.#numFormats);
    const fields = new Fields(value, 'format');
    const type = fields.string('type');
    switch (type) {
      case 'const_string':
        fields.expect(['type', 'value']);
        return { kind: 'const_string', value: fields.string('value') };
      case 'json_schema':
        fields.expect(['type', 'json_schema', 'style', 'max_whitespace_cnt', 'any_order', 'excludes']);
        fields.only('style', 'json');
        fields.only('any_order', false);
        fields.onlyEmpty('excludes');
        return schemaFormat(fields.get('json_schema'), fields.optionalCount('max_whitespace_cnt'));
      case 'any_text':
        fields.expect(['type', 'excludes', 'max_chars', 'max_tokens']);
        fields.only('max_tokens', null);
        return {
          kind: 'any_text',
          excludes: fields.nonEmptyStrings('excludes'),
          maxChars: fields.optionalCount('max_chars'),
        };
      case 'regex':
        fields.expect(['type', 'pattern', 'excludes']);
        fields.onlyEmpty('excludes');
        return { kind: 'regex', pattern: fields.string('pattern') };
      case 'grammar':
        fields.expect(['type', 'grammar']);
        return { kind: 'grammar', source: fields.string('grammar') };
      case 'sequence':
      case 'or': {
        fields.expect(['type', 'elements']);
        const elements = fields.list('elements').map((element) => this.format(element, depth + 1));
        if (elements.length === 0) throw invalid(`a format "${type}" has no elements`);
        return { kind: type, elements };
      }
      case 'optional':
      case 'plus':
      case 'star': {
        fields.expect(['type', 'content']);
        const content = this.format(fields.get('content'), depth + 1);
        return { kind: 'repeat', content, least: type === 'plus' ? 1 : 0, most: type === 'optional' ? 1 : Infinity };
      }
      case 'repeat': {
        fields.expect(['type', 'min', 'max', 'content']);
        const least = fields.count('min');
        const most = fields.get('max') === -1 ? Infinity : fields.count('max');
        checkLimit('repetitions', most === Infinity ? least : most);
        if (most < least) throw invalid(`a format "repeat" has min ${least} above max ${most}`);
        return { kind: 'repeat', content: this.format(fields.get('content'), depth + 1), least, most };
      }
      case 'tag':
        return this.#tag(fields, depth);
      case 'triggered_tags':
        fields.expect(['type', 'triggers', 'tags', 'at_least_one', 'stop_after_first', 'excludes']);
        return triggered(fields.strings('triggers'), this.#tags(fields, depth), {
          excludes: fields.nonEmptyStrings('excludes'),
          atLeastOne: fields.flag('at_least_one'),
          stopAfterFirst: fields.flag('stop_after_first'),
        });
      case 'dispatch':
        return this.#dispatch(fields, depth);
      case 'tags_with_separator': {
        fields.expect(['type', 'tags', 'separator', 'at_least_one', 'stop_after_first']);
        return {
          kind: 'tags_with_separator',
          tags: this.#tags(fields, depth),
          separator: fields.string('separator'),
          atLeastOne: fields.flag('at_least_one'),
          stopAfterFirst: fields.flag('stop_after_first'),
        };
      }
      case 'token': {
        fields.expect(['type', 'token']);
        const token = fields.get('token');
        if (typeof token !== 'string' && !Number.isSafeInteger(token))
          throw invalid('a format "token" needs an id or a text');
        return { kind: 'token', token: token as number | string };
      }
      default:
        throw new ConstraintError(
          'constraint.unsupported',
          `the format "${type.slice(0, 60)}" is not supported in structural tags`,
        );
    }
  }

  #tags(fields: Fields, depth: number): TagElement[] {
    const tags = fields.list('tags').map((item) => this.#tag(new Fields(item, 'tag'), depth + 1));
    if (tags.length === 0) throw invalid('a format has no tags');
    return tags;
  }

  #tag(fields: Fields, depth: number): TagElement {
    checkLimit('tagDepth', depth);
    checkLimit('tagFormats', ++this.#numFormats);
    fields.expect(['type', 'begin', 'content', 'end']);
    fields.only('type', 'tag');
    const end = fields.get('end');
    const ends = Array.isArray(end) ? fields.strings('end') : [fields.string('end')];
    if (ends.length === 0) throw invalid('a tag has no end');
    return { kind: 'tag', begin: fields.string('begin'), content: this.format(fields.get('content'), depth + 1), ends };
  }

  #dispatch(fields: Fields, depth: number): TagFormat {
    fields.expect(['type', 'rules', 'loop', 'excludes']);
    const branches = fields.list('rules').map((rule) => {
      if (!Array.isArray(rule) || rule.length !== 2 || typeof rule[0] !== 'string' || rule[0] === '') {
        throw invalid('a rule of a format "dispatch" is a pair of a text and a format');
      }
      return { trigger: rule[0], rest: this.format(rule[1], depth + 1) };
    });
    if (branches.length === 0) throw invalid('a format "dispatch" has no rules');
    const stopAfterFirst = fields.has('loop') && !fields.flag('loop');
    return { kind: 'triggered', branches, excludes: fields.nonEmptyStrings('excludes'), first: [], stopAfterFirst };
  }
}

function triggered(
  triggers: readonly string[],
  tags: readonly TagElement[],
  options: { excludes: readonly string[]; atLeastOne: boolean; stopAfterFirst: boolean },
): TriggeredTags {
  if (triggers.length === 0 || tags.length === 0) throw invalid('triggered tags need at least one trigger and one tag');
  if (triggers.includes('')) throw invalid('a trigger is empty');
  const branches = tags.map((tag) => {
    const fitting = triggers.filter((trigger) => tag.begin.startsWith(trigger));
    if (fitting.length !== 1) {
      throw invalid(
        `exactly one trigger must be a prefix of the begin ${JSON.stringify(tag.begin)}, got ${fitting.length}`,
      );
    }
    const trigger = fitting[0]!;
    return { trigger, rest: { ...tag, begin: tag.begin.slice(trigger.length) } };
  });
  const first = options.atLeastOne ? tags : [];
  return { kind: 'triggered', branches, excludes: options.excludes, first, stopAfterFirst: options.stopAfterFirst };
}

class Fields {
  readonly #object: Record<string, unknown>;
  readonly #what: string;

  constructor(value: unknown, what: string) {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw invalid(`a ${what} must be an object`);
    this.#object = value as Record<string, unknown>;
    this.#what = what;
  }

  has(name: string): boolean {
    return this.#object[name] !== undefined && this.#object[name] !== null;
  }

  get(name: string): unknown {
    return this.#object[name];
  }

  expect(names: readonly string[]): void {
    for (const name of Object.keys(this.#object)) {
      if (!names.includes(name) && this.has(name)) throw this.#unsupported(name);
    }
  }

  only(name: string, value: unknown): void {
    if (this.has(name) && this.#object[name] !== value) throw this.#unsupported(name);
  }

  onlyEmpty(name: string): void {
    if (this.nonEmptyStrings(name).length > 0) throw this.#unsupported(name);
  }

  string(name: string): string {
    const value = this.#object[name];
    if (typeof value !== 'string') throw invalid(`\`${name}\` of a ${this.#what} must be a string`);
    return value;
  }

  list(name: string): readonly unknown[] {
    const value = this.#object[name];
    if (!Array.isArray(value)) throw invalid(`\`${name}\` of a ${this.#what} must be a list`);
    return value;
  }

  strings(name: string): readonly string[] {
    return this.list(name).map((item) => {
      if (typeof item !== 'string') throw invalid(`\`${name}\` of a ${this.#what} must be a list of strings`);
      return item;
    });
  }

  /** Empty if absent. */
  nonEmptyStrings(name: string): readonly string[] {
    const strings = this.has(name) ? this.strings(name) : [];
    if (strings.includes('')) throw invalid(`\`${name}\` of a ${this.#what} has an empty string`);
    return strings;
  }

  count(name: string): number {
    const value = this.#object[name];
    if (!Number.isSafeInteger(value) || (value as number) < 0)
      throw invalid(`\`${name}\` of a ${this.#what} must be a count`);
    return value as number;
  }

  optionalCount(name: string): number | undefined {
    return this.has(name) ? this.count(name) : undefined;
  }

  /** False if absent. */
  flag(name: string): boolean {
    const value = this.#object[name] ?? false;
    if (typeof value !== 'boolean') throw invalid(`\`${name}\` of a ${this.#what} must be true or false`);
    return value;
  }

  #unsupported(name: string): ConstraintError {
    const message = `\`${name.slice(0, 60)}\` of a ${this.#what} is not supported in structural tags`;
    return new ConstraintError('constraint.unsupported', message);
  }
}

function invalid(message: string): ConstraintError {
  return new ConstraintError('constraint.invalid', message);
}
