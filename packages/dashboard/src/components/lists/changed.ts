/** Parameters of the address with changes; null removes one, a list repeats it. */
export function changed(
  parameters: URLSearchParams,
  changes: Readonly<Record<string, string | readonly string[] | null>>,
): URLSearchParams {
  const after = new URLSearchParams(parameters);
  for (const [name, value] of Object.entries(changes)) {
    after.delete(name);
    for (const one of value === null ? [] : [value].flat()) after.append(name, one);
  }
  return after;
}
