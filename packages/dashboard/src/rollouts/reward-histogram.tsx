import './reward-histogram.css';
import { formatCount, formatValue } from '../components/numbers.ts';
import type { RewardBin } from './reward-bins.ts';

/** Histogram of rewards; a bar selects its rollouts, and clicking it again selects all. @param chosen -1: none */
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
  return (
    <div className="reward-histogram" role="group" aria-label="Rollouts by reward">
      {bins.map((bin, index) => (
        <button
          key={bin.from}
          type="button"
          className="reward-bar"
          aria-pressed={index === chosen}
          title={`${rangeOf(bin)}: ${formatCount(bin.count)}`}
          onClick={() => onChoose(index === chosen ? null : bin)}
        >
          <span className="visually-hidden">
            {formatCount(bin.count)} rollouts, reward {rangeOf(bin)}
          </span>
          <span className="reward-count" aria-hidden="true">
            {bins.length <= 12 || bin.count === most ? formatCount(bin.count) : ''}
          </span>
          <span
            className="reward-fill"
            style={{ blockSize: `${Math.max(bin.count > 0 ? 3 : 1, (bin.count / most) * 76)}px` }}
          />
          <span className="reward-label" aria-hidden="true">
            {bins.length <= 12 || index % 6 === 0 ? formatValue(bin.from) : ''}
          </span>
        </button>
      ))}
    </div>
  );
}

function rangeOf({ from, to, isPoint }: RewardBin): string {
  return isPoint ? formatValue(from) : `${formatValue(from)} to ${formatValue(to)}`;
}
