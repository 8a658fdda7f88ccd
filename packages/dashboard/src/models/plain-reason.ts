/** A long decimal fraction, as in `7.565114901230517e+32`. */
const LONG_NUMBER = /\d+\.\d{4,}(?:e[+-]?\d+)?/g;

/** The reason that a job failed, without the marks of code and the last digits of numbers. */
export function plainReason(message: string | null): string {
  if (message === null || message === '') return 'The reason is unknown.';
  const text = message
    .replaceAll('`', '')
    .replaceAll(LONG_NUMBER, (number) => String(Number(Number(number).toPrecision(3))));
  return text.charAt(0).toUpperCase() + text.slice(1);
}
