import './warnings.css';
import type { TrainingJobObject } from '@trainyard/sdk';

import { Notice } from '../components/notice.tsx';
import { Words } from '../components/words.tsx';

/**
 * Warnings about training that is ineffective or wrong without an error, each with its remedy.
 *
 * @param isBrief shows one expandable line per warning
 */
export function Warnings({
  warnings,
  isBrief = false,
}: {
  warnings: TrainingJobObject['warnings'];
  isBrief?: boolean;
}) {
  return warnings.map(({ code, message, suggestion }) => {
    const problem = <Words text={sentence(message)} />;
    const remedy = <Words text={sentence(suggestion)} />;
    return (
      <Notice key={code} tone="warn">
        {isBrief ? (
          <details className="brief-warning">
            <summary>{problem}</summary>
            <span className="soft">{remedy}</span>
          </details>
        ) : (
          <>
            <strong>{problem}</strong>
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
