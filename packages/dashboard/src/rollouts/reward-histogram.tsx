import './reward-histogram.css';
import { type KeyboardEvent, useRef, useState } from 'react';

import { formatCount, formatTick, formatValue } from '../components/numbers.ts';
import type { RewardBin } from './reward-bins.ts';

/**
 * Histogram of rewards; a bar selects its rollouts, and clicking it again selects all. It is one stop of the Tab
 * key, with arrow keys between the bars.
 *
 * @param chosen -1: none
 */
export function RewardHistogram({
  bins,
  chosen,
  onChoose,
}: {
  bins: readonly RewardBin[];
  chosen: number;
  onChoose: (bin: RewardBin | null) => void;
}) {
  const most = Math.max(1, ...bins.map(({ count }) => count));
  const [at, setAt] = useState(0);
  const bars = useRef<HTMLDivElement>(null);
  const stop = Math.min(chosen >= 0 ? chosen : at, bins.length - 1);
  function onKeyDown(event: KeyboardEvent) {
    const focused = [...(bars.current?.children ?? [])].indexOf(document.activeElement!);
    const next = { ArrowLeft: focused - 1, ArrowRight: focused + 1, Home: 0, End: bins.length - 1 }[event.key];
    if (focused < 0 || next === undefined) return;
    event.preventDefault();
    const place = Math.min(bins.length - 1, Math.max(0, next));
    setAt(place);
    (bars.current?.children[place] as HTMLElement | undefined)?.focus();
  }
  return (
    <div
      ref={bars}
      className="reward-histogram"
      role="group"
      aria-label="Rollouts by reward; arrow keys move between the bars"
      onKeyDown={onKeyDown}
    >
      {bins.map((bin, index) => (
        <button
          key={bin.from}
          type="button"
          className="reward-bar"
          aria-pressed={index === chosen}
          tabIndex={index === stop ? 0 : -1}
          onFocus={() => setAt(index)}
          title={`${rangeOf(bin)}: ${formatCount(bin.count)}`}
          onClick={() => onChoose(index === chosen ? null : bin)}
        >
          <span className="visually-hidden">
            {formatCount(bin.count)} rollouts, reward {rangeOf(bin)}
          </span>
          <span className="reward-count" aria-hidden="true">
            {bins.length <= 12 || bin.count === most || index === chosen ? formatCount(bin.count) : ''}
          </span>
          <span
            className="reward-fill"
            style={{ blockSize: `${Math.max(bin.count > 0 ? 3 : 1, (bin.count / most) * 76)}px` }}
          />
          <span className="reward-label" data-edge={edgeOf(bins, index)} aria-hidden="true">
            {labelOf(bins, index)}
          </span>
        </button>
      ))}
    </div>
  );
}

/** Bars of single rewards are labelled by them; of ranges, the first and the last by their ends, and some between. */
function labelOf(bins: readonly RewardBin[], index: number): string {
  const { from, to, isPoint } = bins[index]!;
  if (isPoint || index === 0) return formatTick(from);
  if (index === bins.length - 1) return formatTick(to);
  return index % 6 === 0 && index < bins.length - 3 ? formatTick(from) : '';
}

function edgeOf(bins: readonly RewardBin[], index: number): 'start' | 'end' | undefined {
  if (bins[index]!.isPoint) return undefined;
  return index === bins.length - 1 ? 'end' : 'start';
}

function rangeOf({ from, to, isPoint }: RewardBin): string {
  return isPoint ? formatValue(from) : `${formatValue(from)} to ${formatValue(to)}`;
}
