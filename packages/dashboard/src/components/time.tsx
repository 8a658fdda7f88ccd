import { formatDuration } from './numbers.ts';
import { useNow } from './use-now.ts';

const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

/** How long ago something was; the exact time is its title. @param at Unix seconds */
export function Ago({ at }: { at: number }) {
  const seconds = useNow() / 1000 - at;
  const date = new Date(at * 1000);
  return (
    <time dateTime={date.toISOString()} title={FULL.format(date)}>
      {seconds < 5 ? 'now' : `${coarse(seconds)} ago`}
    </time>
  );
}

/** Only the largest unit: nobody asks how many seconds more than three hours. */
function coarse(seconds: number): string {
  return formatDuration(seconds).split(' ').slice(0, 2).join(' ');
}
