/** `['precision=fast']` → `{ TRAINYARD_PRECISION: 'fast' }` */
export function settingsEnvironment(settings: readonly string[]): Record<string, string> {
  return Object.fromEntries(settings.map(toVariable));
}

function toVariable(setting: string): [string, string] {
  const [name = '', value = ''] = setting.split('=');
  return [`TRAINYARD_${name.toUpperCase().replaceAll('-', '_')}`, value];
}
