/**
 * Text with field names under its author's names, shown to each reader under the reader's own. Plain data
 * that can cross process borders.
 */
export type FieldText = readonly (string | NamedField)[];

/** A field, or one within it: `repetition_detection.min_count`. */
export interface NamedField {
  readonly field: string;
}

/** Maps a field to the reader's name for it. */
export type FieldNames = (field: string) => string;

/** Longer values come from clients: lists of known names are shorter. */
const MAX_VALUE_CHARACTERS = 1000;

/** Shortens a value for an error message; a value may be as long as a body. */
export function briefly(text: string): string {
  if (text.length <= MAX_VALUE_CHARACTERS) return text;
  // Never ends with half a character.
  return `${text.slice(0, MAX_VALUE_CHARACTERS).replace(/[\ud800-\udbff]$/, '')}…`;
}

/**
 * Template tag: `` naming`${{ field: 'minTokens' }} must be at most ${room}` ``. Shortens values by
 * {@link briefly}.
 */
export function naming(words: TemplateStringsArray, ...values: readonly (NamedField | string | number)[]): FieldText {
  return words.flatMap((word, at) => {
    const value = values[at];
    if (value === undefined) return [word];
    return [word, typeof value === 'object' ? value : briefly(String(value))];
  });
}

/** Like {@link naming}, with every name in backticks. */
export function quoting(words: TemplateStringsArray, ...values: readonly (NamedField | string | number)[]): FieldText {
  return naming(words, ...values).flatMap((part) => (typeof part === 'string' ? [part] : ['`', part, '`']));
}

/** Text for its reader. @param nameOf default: the author's names */
export function renderFieldText(text: FieldText, nameOf: FieldNames = (field) => field): string {
  return text.map((part) => (typeof part === 'string' ? part : nameOf(part.field))).join('');
}

export function renameFields(text: FieldText, nameOf: FieldNames): FieldText {
  return text.map((part) => (typeof part === 'string' ? part : { field: nameOf(part.field) }));
}

/** Names from a table of fields, also for members of these fields; a missing field keeps its name. */
export function namesFrom(table: Readonly<Record<string, string>>): FieldNames {
  return (field) => {
    if (Object.hasOwn(table, field)) return table[field]!;
    const dot = field.indexOf('.');
    const head = dot === -1 ? field : field.slice(0, dot);
    return (Object.hasOwn(table, head) ? table[head]! : head) + field.slice(head.length);
  };
}
