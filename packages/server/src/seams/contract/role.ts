/** Work of a process: answer HTTP, sample, run jobs. */
const PARTS = ['api', 'engine', 'trainer'] as const;
export type Part = (typeof PARTS)[number];

export type Role = 'all' | Part | 'api,engine' | 'api,trainer' | 'engine,trainer';

export const ROLE_FORM = `all, or a comma-separated list of ${PARTS.join(', ')}`;

/** @returns null if the text is not a role */
export function readRole(text: string): Role | null {
  if (text === 'all') return text;
  const named = new Set(text.split(','));
  if ([...named].some((name) => !(PARTS as readonly string[]).includes(name))) return null;
  const parts = PARTS.filter((part) => named.has(part));
  return parts.length === PARTS.length ? 'all' : (parts.join(',') as Role);
}

export function does(role: Role, part: Part): boolean {
  return role === 'all' || role.split(',').includes(part);
}

export function sharesCores(role: Role): boolean {
  return does(role, 'engine') && does(role, 'trainer');
}

/** True if the role needs model files. API-only processes do not. */
export function needsModelFiles(role: Role): boolean {
  return does(role, 'engine') || does(role, 'trainer');
}
