/** The values of an object under other names; keys that have none are left out. */
export function renamed(
  values: Readonly<Record<string, unknown>>,
  names: Readonly<Record<string, string>>,
): Record<string, unknown> {
  return Object.fromEntries(Object.entries(names).map(([name, other]) => [other, values[name]]));
}
