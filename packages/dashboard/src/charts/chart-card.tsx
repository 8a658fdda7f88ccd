import '../components/card.css';
import './chart-card.css';
import { type ReactNode, useMemo, useRef, useState } from 'react';
import { Link } from 'wouter';

import { Menu, MenuItem } from '../components/actions/menu.tsx';
import { Button } from '../components/button.tsx';
import { ChartTable } from './chart-table.tsx';
import { ChartValues } from './chart-values.tsx';
import { download, toCsv } from './csv.ts';
import { savePng } from './save-png.ts';
import { useThemeColors } from './theme-colors.ts';
import { withDiscarded } from './series-lines.ts';
import { LineChart, type LineChartProps } from './line-chart.tsx';
import { shownName } from '../components/shown-name.ts';

/** A chart with its title, the values under the pointer, its table and a CSV download. */
export function ChartCard({
  title,
  help,
  xName,
  empty,
  level: Heading = 'h3',
  onLarge,
  onHide,
  ...chart
}: Omit<LineChartProps, 'label' | 'onHover'> & {
  title: string;
  help?: string | undefined;
  /** Name of the x axis, such as `step`. */
  xName: string;
  /** Shown instead of a chart without lines. */
  empty?: ReactNode;
  /** Heading level. Default `h3`, for charts within a group. */
  level?: 'h2' | 'h3';
  /** Enlarges the chart, or makes it small again. Default: it has one size. */
  onLarge?: () => void;
  /** Default: it cannot be hidden. */
  onHide?: () => void;
}) {
  const [place, setPlace] = useState<number | null>(null);
  const [isTable, setIsTable] = useState(false);
  const section = useRef<HTMLElement>(null);
  const colors = useThemeColors();
  const { lines, height = 180 } = chart;
  // A CSV with only a header would suggest that there are no numbers, while they are still loading.
  const isEmpty = lines.length === 0;
  const listed = useMemo(() => withDiscarded(lines), [lines]);
  const lastDiscarded = lines.findLast(({ discarded }) => discarded !== undefined)?.discarded?.jobs.at(-1);
  return (
    <section ref={section} className="card chart-card" aria-label={shownName(title)}>
      <div className="chart-card-head">
        <Heading>{shownName(title)}</Heading>
        {isEmpty ? null : (
          <>
            <Button
              look="quiet"
              aria-pressed={isTable}
              aria-label={`${shownName(title)} as a table`}
              onClick={() => setIsTable(!isTable)}
            >
              Table
            </Button>
            <Button
              look="quiet"
              aria-label={`${shownName(title)} as CSV`}
              onClick={() => download(`${title.replaceAll(/\W+/g, '-')}.csv`, toCsv(xName, listed))}
            >
              CSV
            </Button>
            <Menu label="More" name={`${shownName(title)}: more`} look="quiet">
              {isTable ? null : (
                <MenuItem onSelect={() => savePng(section.current!, title, lines, colors)}>Save as PNG</MenuItem>
              )}
              {onLarge === undefined ? null : <MenuItem onSelect={onLarge}>Enlarge or reduce</MenuItem>}
              {onHide === undefined ? null : <MenuItem onSelect={onHide}>Hide</MenuItem>}
            </Menu>
          </>
        )}
      </div>
      {help === undefined ? null : <p className="chart-help">{help}</p>}
      <ChartValues lines={lines} place={place} xName={xName} />
      {isEmpty ? (
        <div className="chart-plot" style={{ minHeight: height }}>
          {empty}
        </div>
      ) : isTable ? (
        <ChartTable title={title} xName={xName} lines={listed} {...(chart.onPick ? { onPick: chart.onPick } : {})} />
      ) : (
        <LineChart
          {...chart}
          label={`${shownName(title)} over ${xName}s; the table has the same numbers`}
          onHover={setPlace}
        />
      )}
      {lastDiscarded === undefined ? null : (
        <p className="chart-help chart-note">
          ○ Values of jobs that failed or were cancelled.{' '}
          <Link href={`/jobs/${encodeURIComponent(lastDiscarded)}`}>Open the last one</Link>
        </p>
      )}
    </section>
  );
}
