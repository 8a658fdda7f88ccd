const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;

/** Formats a duration: `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. */
export function durationOf(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const two = (big: number, unit: string, small: number, smallUnit: string) => {
    const rest = Math.floor((whole % big) / small);
    return `${Math.floor(whole / big)} ${unit}${rest === 0 ? '' : ` ${rest} ${smallUnit}`}`;
  };
  if (whole < MINUTE) return `${whole} s`;
  if (whole < HOUR) return two(MINUTE, 'min', 1, 's');
  return whole < DAY ? two(HOUR, 'h', MINUTE, 'min') : two(DAY, 'd', HOUR, 'h');
}

/**
 * Formats the time since then. @param nowMs on the clock of `unixSeconds`: `now()` of the client that read
 * them
 */
export function agoOf(unixSeconds: number, nowMs: number): string {
  const seconds = nowMs / 1000 - unixSeconds;
  return seconds < 1 ? 'now' : `${durationOf(seconds).split(' ').slice(0, 2).join(' ')} ago`;
}

/** Formats a time to the minute, UTC. */
export function timeOf(unixSeconds: number): string {
  return `${new Date(unixSeconds * 1000).toISOString().slice(0, 16).replace('T', ' ')}Z`;
}

const DATE = /^(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/;

/**
 * Unix seconds of a date such as 2027-01-31, whose start is in UTC, or of a time such as 2027-01-31T12:00Z,
 * in local time without a zone; null for any other text, and for days outside the calendar.
 */
export function secondsOfDate(text: string): number | null {
  const [, day] = DATE.exec(text) ?? [];
  // Date.parse reads the 31st of February as a day of March.
  if (day === undefined || !isDay(day)) return null;
  const milliseconds = Date.parse(text.replace(' ', 'T').replace(/([+-]\d{2})(\d{2})$/, '$1:$2'));
  return Number.isFinite(milliseconds) ? milliseconds / 1000 : null;
}

function isDay(day: string): boolean {
  const midnight = Date.parse(day);
  return Number.isFinite(midnight) && new Date(midnight).toISOString().startsWith(day);
}

/**
 * Estimated remaining seconds at the pace so far; null before there is one.
 *
 * @param sinceMs start of the work, of which `numDone` pieces are done
 */
export function etaSeconds(numDone: number, numAll: number | null, sinceMs: number, nowMs: number): number | null {
  // Clocks of two machines may differ.
  if (numAll === null || numDone === 0 || sinceMs > nowMs) return null;
  return ((nowMs - sinceMs) / 1000 / numDone) * Math.max(0, numAll - numDone);
}
