type QueryValue = string | number | boolean | readonly (string | number)[] | null | undefined;

/** `?a=1&b=x&b=y`, or empty; omits null and undefined, and repeats the name for each item of a list. */
export function queryString(query: object): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query) as [string, QueryValue][]) {
    if (value === null || value === undefined) continue;
    for (const item of Array.isArray(value) ? value : [value]) parameters.append(name, String(item));
  }
  const text = parameters.toString();
  return text === '' ? '' : `?${text}`;
}

/** Template tag that encodes the parts of a path. */
export function path(strings: TemplateStringsArray, ...parts: readonly string[]): string {
  return strings.map((text, index) => text + encodeURIComponent(parts[index] ?? '')).join('');
}
