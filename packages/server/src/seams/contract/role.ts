/** Work that a process of a service may do: answer HTTP, sample, see jobs to their end. */
const PARTS = ['api', 'engine', 'trainer'] as const;
export type Part = (typeof PARTS)[number];

/** The work of one process: everything, one part, or two. */
export type Role = 'all' | Part | 'api,engine' | 'api,trainer' | 'engine,trainer';

export const ROLE_FORM = `all, or a comma-separated list of ${PARTS.join(', ')}`;

/** @returns null for what names no parts */
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

/** Sampling and training share the cores of this machine. */
export function sharesCores(role: Role): boolean {
  return does(role, 'engine') && does(role, 'trainer');
}

/** It needs the files of base models: one that answers HTTP alone does not. */
export function needsModelFiles(role: Role): boolean {
  return does(role, 'engine') || does(role, 'trainer');
}
