import './progress.css';

/** A progress bar. @param value 0 to 1 */
export function Progress({ label, value, text }: { label: string; value: number; text?: string }) {
  const percent = Math.round(Math.min(1, Math.max(0, value)) * 1000) / 10;
  return (
    <div className="progress">
      <div
        className="progress-track"
        role="progressbar"
        aria-label={label}
        aria-valuenow={percent}
        aria-valuemin={0}
        aria-valuemax={100}
      >
        <div style={{ width: `${percent}%` }} />
      </div>
      {text === undefined ? null : <small className="soft">{text}</small>}
    </div>
  );
}
