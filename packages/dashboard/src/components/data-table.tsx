import './data-table.css';
import type { ReactNode } from 'react';
import { shownIfText } from './shown-name.ts';

export interface Column<Row> {
  readonly name: string;
  readonly cell: (row: Row) => ReactNode;
  readonly isNumber?: boolean;
  /** Keeps the cells on one line and as narrow as their text, which leaves the room to other columns. */
  readonly isShort?: boolean;
  /** Hides the column's name visually if the cells are clear without it; screen readers still get it. */
  readonly isNameHidden?: boolean;
}

/** A table; wide ones scroll inside their own box. For thousands of rows there is `LongTable`. */
export function DataTable<Row>({
  caption,
  columns,
  rows,
  keyOf,
}: {
  caption: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
}) {
  return (
    <div className="table-scroll" tabIndex={0} role="region" aria-label={caption}>
      <table className="data-table">
        <caption className="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map(({ name, isNumber, isNameHidden }) => (
              <th key={name} scope="col" className={isNumber ? 'number' : undefined}>
                <span className={isNameHidden === true ? 'visually-hidden' : undefined}>{name}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map(({ name, cell, isNumber, isShort }) => (
                <td key={name} className={isNumber ? 'number' : isShort ? 'short' : undefined}>
                  {shownIfText(cell(row))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
