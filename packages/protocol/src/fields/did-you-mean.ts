/** Maximum edit distance of a typo, which must also be at most half the letters. */
const FARTHEST_SLIP = 3;
/** A shorter prefix matches too many names. */
const SHORTEST_BEGINNING = 3;

/** ` (did you mean …?)` with the nearest known name, by prefix or typo; empty if none is near. */
export function didYouMean(name: string, known: readonly string[]): string {
  const whole = nameStartingWith(name, known) ?? nearestTo(name, known);
  return whole === null ? '' : ` (did you mean ${whole}?)`;
}

/** The shortest known name with this prefix: `temp` is `temperature`. */
function nameStartingWith(name: string, known: readonly string[]): string | null {
  if (name.length < SHORTEST_BEGINNING) return null;
  const lower = name.toLowerCase();
  const prefixed = known.filter((one) => one.toLowerCase().startsWith(lower));
  return prefixed.toSorted((first, second) => first.length - second.length)[0] ?? null;
}

function nearestTo(name: string, known: readonly string[]): string | null {
  const farthest = Math.min(FARTHEST_SLIP, Math.ceil(name.length / 2));
  const near = known
    .filter((one) => Math.abs(one.length - name.length) <= farthest)
    .map((one) => ({ one, slips: slipsBetween(name, one) }))
    .toSorted((first, second) => first.slips - second.slips)[0];
  return near !== undefined && near.slips <= farthest ? near.one : null;
}

/** Levenshtein distance: letters to insert, remove or change. */
function slipsBetween(first: string, second: string): number {
  let before = Array.from({ length: second.length + 1 }, (_, index) => index);
  for (let row = 1; row <= first.length; row++) {
    const now = [row];
    for (let column = 1; column <= second.length; column++) {
      const changed = before[column - 1]! + (first[row - 1] === second[column - 1] ? 0 : 1);
      now.push(Math.min(changed, before[column]! + 1, now[column - 1]! + 1));
    }
    before = now;
  }
  return before[second.length]!;
}
