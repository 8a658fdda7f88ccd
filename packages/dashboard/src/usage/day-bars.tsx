import '../components/card.css';
import type { UsageGroupObject } from '@trainyard/sdk';

import { client } from '../api/client.ts';
import { formatCount } from '../components/numbers.ts';
import { roundTop } from './usage-rows.ts';

const DAY_MS = 86_400_000;
/** Bars are wide enough for a number above them up to this many days. */
const MAX_NUMBERED = 10;
const COMPACT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** Tokens per day of sampling or training: prompts or context below, completions or trained tokens above. */
export function DayBars({
  title,
  words: [below, above],
  groups,
  days,
}: {
  title: string;
  words: readonly [below: string, above: string];
  groups: readonly UsageGroupObject[];
  days: number;
}) {
  const today = Math.floor(client.now() / DAY_MS);
  const shown = Array.from({ length: days }, (_, index) => {
    const day = new Date((today - days + 1 + index) * DAY_MS).toISOString().slice(0, 10);
    const ofDay = groups.filter((group) => group.day === day);
    const sum = (pick: (group: UsageGroupObject) => number) => ofDay.reduce((total, group) => total + pick(group), 0);
    return {
      day,
      prompt: sum(({ prompt_tokens: count }) => count),
      completion: sum(({ completion_tokens: count }) => count),
    };
  });
  const top = roundTop(Math.max(...shown.map(({ prompt, completion }) => prompt + completion)));
  const sum = (pick: (day: (typeof shown)[number]) => number) =>
    formatCount(shown.reduce((total, day) => total + pick(day), 0));
  return (
    <figure className="card day-bars">
      <figcaption>
        <strong>{title}</strong>
        <span data-part="prompt">
          {below} {sum(({ prompt }) => prompt)}
        </span>
        <span data-part="completion">
          {above} {sum(({ completion }) => completion)}
        </span>
      </figcaption>
      <div className="day-bars-plot">
        <div className="day-bars-axis soft" aria-hidden="true">
          {[top, top / 2, 0].map((tick) => (
            <span key={tick}>{COMPACT.format(tick)}</span>
          ))}
        </div>
        <ol>
          {shown.map(({ day, prompt, completion }) => (
            <li
              key={day}
              title={`${day}: ${formatCount(prompt)} ${below.toLowerCase()}, ${formatCount(completion)} ${above.toLowerCase()}`}
            >
              <span className="visually-hidden">
                {day}: {prompt} {below.toLowerCase()} tokens, {completion} {above.toLowerCase()} tokens
              </span>
              {days <= MAX_NUMBERED && prompt + completion > 0 ? (
                <small aria-hidden="true">{COMPACT.format(prompt + completion)}</small>
              ) : null}
              <div data-part="completion" style={{ height: `${(completion / top) * 100}%` }} />
              <div data-part="prompt" style={{ height: `${(prompt / top) * 100}%` }} />
            </li>
          ))}
        </ol>
      </div>
      <div className="day-bars-ends soft">
        <span>{shown[0]?.day}</span>
        <span>today (UTC)</span>
      </div>
    </figure>
  );
}
