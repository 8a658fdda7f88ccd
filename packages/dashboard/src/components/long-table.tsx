import './long-table.css';
import { useVirtualizer } from '@tanstack/react-virtual';
import { type ReactNode, useEffect, useRef } from 'react';
import { shownIfText, shownName } from './shown-name.ts';

export interface LongColumn<Row> {
  readonly name: string;
  /** Width as a CSS grid track, e.g. `80px`, `minmax(120px, 1fr)`. */
  readonly width: string;
  readonly cell: (row: Row) => ReactNode;
  readonly isNumber?: boolean;
  /** Hides the column's name visually if the cells are clear without it; screen readers still get it. */
  readonly isNameHidden?: boolean;
}

const HEAD_HEIGHT = 34;

/** A table of any number of rows of equal height; renders only those in view. */
export function LongTable<Row>({
  caption,
  columns,
  rows,
  keyOf,
  rowHeight = 36,
  minWidth = 0,
  onEnd,
}: {
  caption: string;
  columns: readonly LongColumn<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string | number;
  rowHeight?: number;
  /** Minimum width before it scrolls sideways, px. */
  minWidth?: number;
  /** Called when the last rows come into view, to load more. */
  onEnd?: () => void;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 12,
  });
  const items = virtual.getVirtualItems();
  const lastIndex = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (rows.length > 0 && lastIndex >= rows.length - 20) onEnd?.();
  }, [lastIndex, rows.length, onEnd]);
  const style = {
    '--columns': columns.map(({ width }) => width).join(' '),
    height: HEAD_HEIGHT + rows.length * rowHeight + 2,
  };
  return (
    <div
      ref={scroller}
      className="long-table"
      role="table"
      aria-label={caption}
      aria-rowcount={rows.length + 1}
      tabIndex={0}
      style={style}
    >
      <div role="rowgroup" className="long-table-top" style={{ minWidth }}>
        <div className="long-table-head" role="row" aria-rowindex={1}>
          {columns.map(({ name, isNumber, isNameHidden }) => (
            <span key={name} role="columnheader" data-number={isNumber === true ? '' : undefined}>
              <span className={isNameHidden === true ? 'visually-hidden' : undefined}>{shownName(name)}</span>
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" style={{ position: 'relative', minWidth, height: virtual.getTotalSize() }}>
        {items.map(({ index, start }) => {
          const row = rows[index]!;
          return (
            <div
              key={keyOf(row)}
              className="long-table-row"
              role="row"
              aria-rowindex={index + 2}
              style={{ height: rowHeight, transform: `translateY(${start}px)` }}
            >
              {columns.map(({ name, cell, isNumber }) => (
                <span key={name} role="cell" data-number={isNumber === true ? '' : undefined}>
                  {shownIfText(cell(row))}
                </span>
              ))}
            </div>
          );
        })}
      </div>
    </div>
  );
}
