/** A name that is more letters away is not taken for a slip. */
const FARTHEST_SLIP = 3;

/** ` (did you mean …?)` with the known name that a slip may have made this of; nothing where none is near. */
export function didYouMean(name: string, known: readonly string[]): string {
  const near = known
    .map((one) => ({ one, slips: slipsBetween(name, one) }))
    .toSorted((first, second) => first.slips - second.slips)[0];
  return near !== undefined && near.slips <= FARTHEST_SLIP ? ` (did you mean ${near.one}?)` : '';
}

/** Letters that are to be put in, taken out or changed (Levenshtein's distance). */
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
