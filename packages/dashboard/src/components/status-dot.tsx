import './status-dot.css';

export type StatusTone = 'plain' | 'good' | 'warn' | 'bad' | 'live';

/** A state as a word, with a dot of matching colour. */
export function StatusDot({ tone, children }: { tone: StatusTone; children: string }) {
  return (
    <span className="status-dot" data-tone={tone}>
      {children}
    </span>
  );
}
