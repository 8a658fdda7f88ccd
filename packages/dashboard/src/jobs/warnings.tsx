import './warnings.css';
import type { TrainingJobObject } from '@trainyard/sdk';

import { Notice } from '../components/notice.tsx';
import { Words } from '../components/words.tsx';

/**
 * What makes training wrong or empty without being an error, and what to do about it.
 *
 * @param isBrief a line each, which opens: for pages that have more to show
 */
export function Warnings({
  warnings,
  isBrief = false,
}: {
  warnings: TrainingJobObject['warnings'];
  isBrief?: boolean;
}) {
  return warnings.map(({ code, message, suggestion }) => {
    const said = <Words text={sentence(message)} />;
    const remedy = <Words text={sentence(suggestion)} />;
    return (
      <Notice key={code} tone="warn">
        {isBrief ? (
          <details className="brief-warning">
            <summary>{said}</summary>
            <span className="soft">{remedy}</span>
          </details>
        ) : (
          <>
            <strong>{said}</strong>
            <span className="soft">{remedy}</span>
          </>
        )}
      </Notice>
    );
  });
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
}
