/** `['precision=fast']` → `{ TRAINYARD_PRECISION: 'fast' }` */
export function settingsEnvironment(settings: readonly string[]): Record<string, string> {
  return Object.fromEntries(settings.map(toVariable));
}

/** `{ A: '1', B: '2' }` → `A=1 B=2` */
export function shownVariables(environment: Readonly<Record<string, string>>): string {
  return Object.entries(environment)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
}

function toVariable(setting: string): [string, string] {
  const [name = '', value = ''] = setting.split('=');
  return [`TRAINYARD_${name.toUpperCase().replaceAll('-', '_')}`, value];
}
