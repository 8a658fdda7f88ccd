/** A piece of HTML that is safe to insert unchanged. */
export class Html {
  readonly source: string;
  constructor(source: string) {
    this.source = source;
  }
}

type Insert = Html | string | number | null | readonly Insert[];

/**
 * A template that escapes inserted strings; pieces of HTML and lists of them are inserted unchanged, null as
 * nothing.
 */
export function html(strings: TemplateStringsArray, ...inserts: readonly Insert[]): Html {
  return new Html(strings.reduce((source, text, index) => source + toSource(inserts[index - 1] ?? null) + text));
}

function toSource(insert: Insert): string {
  if (insert === null) return '';
  if (insert instanceof Html) return insert.source;
  if (typeof insert === 'object') return insert.map(toSource).join('');
  return escapeText(String(insert));
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escapeText(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}

/** Converts text with `code` between backticks. */
export function prose(text: string): Html {
  return new Html(
    text
      .split('`')
      .map((part, index) => (index % 2 === 1 ? `<code>${escapeText(part)}</code>` : escapeText(part)))
      .join(''),
  );
}
