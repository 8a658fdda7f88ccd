/** The last day that dates with years of four digits have; browsers take years of six. */
export const LAST_DAY = '9999-12-31';

/** Unix seconds of the end of a day such as `2027-01-31`, where the browser is. @throws {RangeError} for a day beyond {@link LAST_DAY} */
export function endOfDay(day: string): number {
  const end = Date.parse(`${day}T23:59:59`);
  if (Number.isNaN(end)) throw new RangeError(`The day must be ${LAST_DAY} at the latest`);
  return Math.floor(end / 1000);
}

/** The day of a time, where the browser is: `2027-01-31`. @param at Unix seconds */
export function dayOf(at: number): string {
  const date = new Date(at * 1000);
  const two = (number: number) => String(number).padStart(2, '0');
  return `${String(date.getFullYear()).padStart(4, '0')}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}
