/** Formats that llguidance holds a string to. */
const ENFORCED = new Set(['date-time', 'date', 'time', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uri', 'uuid']);

/** Formats of JSON Schema itself that it does not know. */
const UNENFORCED_STANDARD = new Set([
  'idn-email',
  'idn-hostname',
  'uri-reference',
  'iri',
  'iri-reference',
  'uri-template',
  'json-pointer',
  'relative-json-pointer',
  'regex',
]);

/** pydantic's `UUID1` … `UUID8` say which version; RFC 9562 puts it into the first digit of the third group. */
const UUID_VERSION = /^uuid([1-8])$/;

/** The meaning of a schema's `format`: an enforced one, a pattern that says the same, nothing (an annotation), or what cannot be enforced. */
export type StringFormat =
  | { kind: 'format' }
  | { kind: 'pattern'; pattern: string }
  | { kind: 'annotation' }
  | { kind: 'unenforced' };

/**
 * JSON Schema takes a format that nobody knows for an annotation, and so do the libraries that write schemas: pydantic's `path`, `file-path`, `binary`, `password`,
 * `json-string` tell a reader what the string is for, not how it looks.
 */
export function stringFormat(format: unknown): StringFormat {
  if (typeof format !== 'string') return { kind: 'unenforced' };
  if (ENFORCED.has(format)) return { kind: 'format' };
  const version = UUID_VERSION.exec(format)?.[1];
  if (version !== undefined) {
    const hex = '[0-9a-fA-F]';
    return { kind: 'pattern', pattern: `^${hex}{8}-${hex}{4}-${version}${hex}{3}-[89abAB]${hex}{3}-${hex}{12}$` };
  }
  return { kind: UNENFORCED_STANDARD.has(format) ? 'unenforced' : 'annotation' };
}
