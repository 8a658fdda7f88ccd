/** Last day with a four-digit year; date inputs accept six digits. */
export const LAST_DAY = '9999-12-31';

/**
 * Unix seconds of the end of a day such as `2027-01-31` in the browser's time zone.
 *
 * @throws {RangeError} for a day after {@link LAST_DAY}
 */
export function endOfDay(day: string): number {
  const end = Date.parse(`${day}T23:59:59`);
  if (Number.isNaN(end)) throw new RangeError(`Choose a day on or before ${LAST_DAY}`);
  return Math.floor(end / 1000);
}

/** Day of a time in the browser's time zone: `2027-01-31`. @param at Unix seconds */
export function dayOf(at: number): string {
  const date = new Date(at * 1000);
  return `${String(date.getFullYear()).padStart(4, '0')}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** Time of day in the browser's time zone: `14:05:09`. @param at Unix seconds */
export function timeOfDay(at: number): string {
  const date = new Date(at * 1000);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':');
}

function two(number: number): string {
  return String(number).padStart(2, '0');
}
