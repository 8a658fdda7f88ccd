import './status-dot.css';

export type StatusTone = 'plain' | 'good' | 'warn' | 'bad' | 'live';

/** A word about a state, and a dot whose colour says it again. */
export function StatusDot({ tone, children }: { tone: StatusTone; children: string }) {
  return (
    <span className="status-dot" data-tone={tone}>
      {children}
    </span>
  );
}
