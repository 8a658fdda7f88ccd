const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];
const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

/**
 * Python's `datetime.strftime` in the C locale, local time, for the codes chat templates use; an unknown code stays as it is.
 * A `-` after the percent sign (glibc) drops the leading zero.
 */
export function strftime(date: Date, format: string): string {
  const month = MONTHS[date.getMonth()] ?? '';
  const day = DAYS[date.getDay()] ?? '';
  const padded = (value: number, width: number) => String(value).padStart(width, '0');
  const codes: Record<string, string> = {
    Y: padded(date.getFullYear(), 4),
    y: padded(date.getFullYear() % 100, 2),
    m: padded(date.getMonth() + 1, 2),
    d: padded(date.getDate(), 2),
    H: padded(date.getHours(), 2),
    I: padded(date.getHours() % 12 || 12, 2),
    M: padded(date.getMinutes(), 2),
    S: padded(date.getSeconds(), 2),
    p: date.getHours() < 12 ? 'AM' : 'PM',
    B: month,
    b: month.slice(0, 3),
    A: day,
    a: day.slice(0, 3),
    '%': '%',
  };
  return format.replace(/%(-?)([a-zA-Z%])/g, (found: string, dash: string, code: string) => {
    const text = codes[code];
    if (text === undefined) return found;
    return dash === '' ? text : text.replace(/^0+(?=\d)/, '');
  });
}
