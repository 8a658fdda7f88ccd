import './spark-line.css';

/** A small line without an axis; hidden from screen readers, which have the numbers next to it. */
export function SparkLine({
  x,
  y,
  width = 84,
  height = 22,
}: {
  x: readonly number[];
  y: readonly number[];
  width?: number;
  height?: number;
}) {
  if (y.length < 2) return null;
  const points = x.map((_, index) => {
    const [left, up] = [fraction(x, index), fraction(y, index)];
    return `${(1 + left * (width - 2)).toFixed(1)},${(height - 2 - up * (height - 4)).toFixed(1)}`;
  });
  return (
    <svg className="spark-line" width={width} height={height} aria-hidden="true">
      <polyline points={points.join(' ')} />
    </svg>
  );
}

/** Place of a value between the least and the largest, from 0 to 1. */
function fraction(values: readonly number[], index: number): number {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return high === low ? 0.5 : (values[index]! - low) / (high - low);
}
