/** Words for one that is refused: JSON cannot say it again, and where it is handed on as text it would be null. */
export const INFINITE = 'Input should be a finite number: it is beyond ±1.8e308';

/** The place of the first number of a JSON value that is infinite, as 1e999 is when it was read; null when there is none. What nests deeply was refused before. */
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

/** Most members are text or numbers, which are not worth a call. */
function placeOfMember(member: unknown): (string | number)[] | null {
  if (typeof member === 'number') return isInfinite(member) ? [] : null;
  return typeof member === 'object' ? placeOfInfinity(member) : null;
}

function isInfinite(value: unknown): boolean {
  return value === Infinity || value === -Infinity;
}
