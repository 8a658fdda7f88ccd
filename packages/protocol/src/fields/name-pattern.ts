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
