/** Enforced by llguidance. */
const ENFORCED = new Set(['date-time', 'date', 'time', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uri', 'uuid']);

/** Unknown to llguidance. */
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

/** pydantic's `UUID1` … `UUID8` name the version, which RFC 9562 puts into the first digit of the third group. */
const UUID_VERSION = /^uuid([1-8])$/;

export type StringFormat =
  | { kind: 'format' }
  | { kind: 'pattern'; pattern: string }
  | { kind: 'annotation' }
  | { kind: 'unenforced' };

/**
 * Unknown formats are annotations, as in JSON Schema and its libraries: pydantic's `path`, `file-path`,
 * `binary`, `password`, `json-string` describe the use of a string, not its form.
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
