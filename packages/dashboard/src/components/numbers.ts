const COUNT = new Intl.NumberFormat('en');

/** `12,345` */
export function formatCount(value: number): string {
  return COUNT.format(value);
}

/** A measured number with significant digits, by default four: `0.1235`, `12.35`, `1.20e-5`. */
export function formatValue(value: number, digits = 4): string {
  if (!Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(2);
  return Number.isInteger(value) ? COUNT.format(value) : String(Number(value.toPrecision(digits)));
}

/** A power of ten, or one digit of it: `1e-6`, `0.001`, `3`. */
export function formatTick(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(0);
  return String(Number(value.toPrecision(3)));
}

/** A reward or loss with three decimals, so that a column of them is aligned: `0.790`. */
export function formatScore(value: number): string {
  const size = Math.abs(value);
  return Number.isFinite(value) && size < 1e6 && (size === 0 || size >= 5e-4) ? value.toFixed(3) : formatValue(value);
}

/** `1 group`, `8 groups` */
export function counted(number: number, noun: string): string {
  return `${formatCount(number)} ${noun}${number === 1 ? '' : 's'}`;
}

/** `40.8 MB` */
export function formatMegabytes(bytes: number): string {
  return `${new Intl.NumberFormat('en', { minimumFractionDigits: 1, maximumFractionDigits: 1 }).format(bytes / 1e6)} MB`;
}

/** `45 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h` */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return joined(Math.floor(whole / 60), 'min', whole % 60, 's');
  if (whole < 86_400) return joined(Math.floor(whole / 3600), 'h', Math.floor((whole % 3600) / 60), 'min');
  return joined(Math.floor(whole / 86_400), 'd', Math.floor((whole % 86_400) / 3600), 'h');
}

function joined(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}
