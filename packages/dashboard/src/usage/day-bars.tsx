import '../components/card.css';
import type { UsageGroupObject } from '@trainyard/sdk';

import { client } from '../api/client.ts';
import { formatCount } from '../components/numbers.ts';

const DAY_MS = 86_400_000;

/** Tokens per day: prompt tokens below, completion tokens above. */
export function DayBars({ groups, days }: { groups: readonly UsageGroupObject[]; days: number }) {
  const byDay = new Map(groups.map((group) => [group.day, group]));
  const today = Math.floor(client.now() / DAY_MS);
  const shown = Array.from({ length: days }, (_, index) => {
    const day = new Date((today - days + 1 + index) * DAY_MS).toISOString().slice(0, 10);
    const group = byDay.get(day);
    return { day, prompt: group?.prompt_tokens ?? 0, completion: group?.completion_tokens ?? 0 };
  });
  const most = Math.max(1, ...shown.map(({ prompt, completion }) => prompt + completion));
  const sum = (pick: (day: (typeof shown)[number]) => number) =>
    formatCount(shown.reduce((total, day) => total + pick(day), 0));
  return (
    <figure className="card day-bars">
      <figcaption>
        <span data-part="prompt">Prompt {sum(({ prompt }) => prompt)}</span>
        <span data-part="completion">Completion {sum(({ completion }) => completion)}</span>
      </figcaption>
      <ol>
        {shown.map(({ day, prompt, completion }) => (
          <li key={day} title={`${day}: ${formatCount(prompt)} prompt, ${formatCount(completion)} completion`}>
            <span className="visually-hidden">
              {day}: {prompt} prompt tokens, {completion} completion tokens
            </span>
            <div data-part="completion" style={{ height: `${(completion / most) * 100}%` }} />
            <div data-part="prompt" style={{ height: `${(prompt / most) * 100}%` }} />
          </li>
        ))}
      </ol>
      <div className="day-bars-ends soft">
        <span>{shown[0]?.day}</span>
        <span>today (UTC)</span>
      </div>
    </figure>
  );
}
