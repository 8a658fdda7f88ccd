import type { Followed } from './closed-set.ts';

/** Keywords without meaning for property names. */
const SILENT = new Set([
  'title',
  'description',
  'default',
  'examples',
  '$comment',
  '$schema',
  '$id',
  '$anchor',
  '$defs',
  'definitions',
]);

/** True if a schema allows every name. All names are strings, and zod 4 writes that for each record. */
export function isFreeName(schema: unknown, followed: Followed): boolean {
  const found = followed(schema);
  if (found === true) return true;
  return isObject(found) && Object.entries(found).every(([keyword, value]) => allowsAll(keyword, value, followed));
}

function allowsAll(keyword: string, value: unknown, followed: Followed): boolean {
  switch (keyword) {
    case 'type':
      return value === 'string' || (Array.isArray(value) && value.includes('string'));
    case 'minLength':
      return value === 0;
    case 'allOf':
      return Array.isArray(value) && value.every((part) => isFreeName(part, followed));
    case 'anyOf':
      return Array.isArray(value) && value.some((part) => isFreeName(part, followed));
    default:
      return SILENT.has(keyword);
  }
}

/** Null if no expression is equivalent. */
export function namesPattern(schema: unknown, followed: Followed): string | null {
  const found = followed(schema);
  if (!isObject(found)) return null;
  const { pattern, minLength, maxLength, ...rest } = found;
  const hasLength = minLength !== undefined || maxLength !== undefined;
  if (!Object.entries(rest).every(([keyword, value]) => allowsAll(keyword, value, followed))) return null;
  if (typeof pattern === 'string') return hasLength ? null : pattern;
  if (pattern !== undefined || !hasLength || !isCount(minLength) || !isCount(maxLength)) return null;
  return `^[^]{${minLength ?? 0},${maxLength ?? ''}}$`;
}

function isCount(value: unknown): value is number | undefined {
  return value === undefined || (Number.isInteger(value) && (value as number) >= 0);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
