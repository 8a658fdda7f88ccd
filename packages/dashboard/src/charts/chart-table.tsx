import { useMemo } from 'react';

import { Button } from '../components/button.tsx';
import { type LongColumn, LongTable } from '../components/long-table.tsx';
import { formatValue } from '../components/numbers.ts';
import type { ChartLine } from './chart-line.ts';
import { placesOf } from './csv.ts';

/** The numbers of a chart as a table. */
export function ChartTable({
  title,
  xName,
  lines,
  onPick,
}: {
  title: string;
  xName: string;
  lines: readonly ChartLine[];
  onPick?: (x: number) => void;
}) {
  const places = useMemo(() => placesOf(lines).toReversed(), [lines]);
  const columns = useMemo<LongColumn<number>[]>(() => {
    const valuesOf = lines.map(({ x, y }) => new Map(x.map((place, index) => [place, y[index]!])));
    return [
      {
        name: xName,
        width: 'minmax(70px, 1fr)',
        cell: (place) =>
          onPick === undefined ? (
            place
          ) : (
            <Button look="quiet" onClick={() => onPick(place)}>
              {place}
            </Button>
          ),
      },
      ...lines.map(({ name }, index) => ({
        name,
        width: 'minmax(80px, 1fr)',
        isNumber: true,
        cell: (place: number) => {
          const value = valuesOf[index]!.get(place);
          return value === undefined ? '–' : formatValue(value);
        },
      })),
    ];
  }, [lines, xName, onPick]);
  return <LongTable caption={title} columns={columns} rows={places} keyOf={(place) => place} rowHeight={28} />;
}
