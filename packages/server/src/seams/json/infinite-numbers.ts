/** Message for a refused number: JSON cannot write it, and as text it would become null. */
export const INFINITE = 'Input should be a finite number: it is beyond ±1.8e308';

/**
 * Place of the first infinite number in a JSON value, such as 1e999; null if none. Deep values were refused
 * before.
 */
export function placeOfInfinity(value: unknown): (string | number)[] | null {
  if (typeof value !== 'object' || value === null) return isInfinite(value) ? [] : null;
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) {
      const place = placeOfMember(value[at]);
      if (place !== null) return [at, ...place];
    }
    return null;
  }
  for (const name in value) {
    const place = placeOfMember(value[name as keyof typeof value]);
    if (place !== null) return [name, ...place];
  }
  return null;
}

/** Avoids a call for members that are text or numbers, as most are. */
function placeOfMember(member: unknown): (string | number)[] | null {
  if (typeof member === 'number') return isInfinite(member) ? [] : null;
  return typeof member === 'object' ? placeOfInfinity(member) : null;
}

function isInfinite(value: unknown): boolean {
  return value === Infinity || value === -Infinity;
}
