/**
 * Pattern of a character other than an unpaired surrogate, a separator of a model name (`/`, `:`, `@`) and a
 * control character.
 * @param others also excluded
 */
const nameCharacter = (others: string): string =>
  `(?:[^${others}/:@\\u0000-\\u001f\\u007f\\ud800-\\udfff]|[\\ud800-\\udbff][\\udc00-\\udfff])`;

/**
 * Name of these characters other than `.` and `..`, which are steps in a URL. Without look-ahead, which some
 * pattern engines lack.
 */
export const NAME_PATTERN = `^(?:\\.*${nameCharacter('.')}${nameCharacter('')}*|\\.{3,})$`;

/** Text without unpaired surrogates and U+0000, which no database holds. */
export const STORABLE_PATTERN = '^(?:[^\\u0000\\ud800-\\udfff]|[\\ud800-\\udbff][\\udc00-\\udfff])*$';

/** @param others also excluded */
const tagCharacter = (others: string): string =>
  `(?:[^${others},\\u0000-\\u001f\\u007f\\u2028\\u2029\\ud800-\\udfff]|[\\ud800-\\udbff][\\udc00-\\udfff])`;

/** Text of one line without commas, which separate tags in forms; no space at its ends. */
export const TAG_PATTERN = `^${tagCharacter('\\s')}(?:${tagCharacter('')}*${tagCharacter('\\s')})?$`;
