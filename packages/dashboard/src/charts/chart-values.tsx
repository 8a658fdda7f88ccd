import { formatValue } from '../components/numbers.ts';
import type { ChartLine } from './chart-line.ts';
import { shownName } from '../components/shown-name.ts';

/** The value of each line at the pointed place, or its last one. */
export function ChartValues({
  lines,
  place,
  xName,
}: {
  lines: readonly ChartLine[];
  place: number | null;
  xName: string;
}) {
  const last = Math.max(...lines.flatMap(({ x }) => x.at(-1) ?? []));
  const shown = place ?? (Number.isFinite(last) ? last : null);
  if (shown === null) return null;
  return (
    <div className="chart-values">
      <span>
        {xName} {formatPlace(shown)}
      </span>
      {lines.map((line) => (
        <span key={line.name} data-color={line.color} data-dash={line.dash ?? line.color}>
          {shownName(line.name)} <b>{valueAt(line, place ?? line.x.at(-1) ?? shown)}</b>
          {place === null && line.x.at(-1) !== last && line.x.length > 0
            ? ` (${xName} ${formatPlace(line.x.at(-1)!)})`
            : null}
        </span>
      ))}
    </div>
  );
}

function formatPlace(place: number): string {
  return Number.isInteger(place) ? String(place) : formatValue(place);
}

function valueAt({ x, y }: ChartLine, place: number): string {
  const index = x.indexOf(place);
  return index < 0 ? '–' : formatValue(y[index]!);
}
