/**
 * A text about fields: words, and between them the fields, by the names that its author knows. Whoever shows it says them as its reader knows them. Plain data, which
 * crosses the borders of processes.
 */
export type FieldText = readonly (string | NamedField)[];

/** A field, or one within it: `repetition_detection.min_count`. */
export interface NamedField {
  readonly field: string;
}

/** The name that a reader knows a field by. */
export type FieldNames = (field: string) => string;

/** Longer values are a client's: lists of known names are shorter. */
const MAX_VALUE_CHARACTERS = 1000;

/** A value as an error shows it: of one that may be as long as a body, the beginning. */
export function briefly(text: string): string {
  if (text.length <= MAX_VALUE_CHARACTERS) return text;
  // No half of a character at the end.
  return `${text.slice(0, MAX_VALUE_CHARACTERS).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** `` naming`${{ field: 'minTokens' }} must be at most ${room}` ``. Values are told {@link briefly}. */
export function naming(words: TemplateStringsArray, ...values: readonly (NamedField | string | number)[]): FieldText {
  return words.flatMap((word, at) => {
    const value = values[at];
    if (value === undefined) return [word];
    return [word, typeof value === 'object' ? value : briefly(String(value))];
  });
}

/** With every name between backticks. */
export function quoting(words: TemplateStringsArray, ...values: readonly (NamedField | string | number)[]): FieldText {
  return naming(words, ...values).flatMap((part) => (typeof part === 'string' ? [part] : ['`', part, '`']));
}

/** As its reader reads it. @param nameOf default: its author's names */
export function sayFields(text: FieldText, nameOf: FieldNames = (field) => field): string {
  return text.map((part) => (typeof part === 'string' ? part : nameOf(part.field))).join('');
}

/** The same text, its fields by other names. */
export function renameFields(text: FieldText, nameOf: FieldNames): FieldText {
  return text.map((part) => (typeof part === 'string' ? part : { field: nameOf(part.field) }));
}

/** The names that a table says, of fields and so of what is within them; a field that it does not have keeps its own. */
export function namesFrom(table: Readonly<Record<string, string>>): FieldNames {
  return (field) => {
    if (Object.hasOwn(table, field)) return table[field]!;
    const dot = field.indexOf('.');
    const head = dot === -1 ? field : field.slice(0, dot);
    return (Object.hasOwn(table, head) ? table[head]! : head) + field.slice(head.length);
  };
}
