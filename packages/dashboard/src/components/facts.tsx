import './facts.css';
import type { ReactNode } from 'react';
import { shownIfText, shownName } from './shown-name.ts';

export interface Fact {
  readonly name: string;
  readonly value: ReactNode;
}

/** A few figures in a row, each under its name. */
export function Facts({ facts }: { facts: readonly Fact[] }) {
  return (
    <dl className="facts">
      {facts.map(({ name, value }) => (
        <div key={name}>
          <dt>{shownName(name)}</dt>
          <dd>{shownIfText(value)}</dd>
        </div>
      ))}
    </dl>
  );
}
