import { formatDuration } from './numbers.ts';
import { useNow } from './use-now.ts';

const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

/** Time since an event; the tooltip has the exact time. @param at Unix seconds */
export function Ago({ at }: { at: number }) {
  const seconds = useNow() / 1000 - at;
  const date = new Date(at * 1000);
  return (
    <time dateTime={date.toISOString()} title={FULL.format(date)}>
      {seconds < 5 ? 'now' : `${coarse(seconds)} ago`}
    </time>
  );
}

/** Only the largest unit: "3 h" instead of "3 h 12 s". */
function coarse(seconds: number): string {
  return formatDuration(seconds).split(' ').slice(0, 2).join(' ');
}
