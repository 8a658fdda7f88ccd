import './notice.css';
import type { ReactNode } from 'react';

export type Tone = 'plain' | 'good' | 'warn' | 'bad';

/** Important information for the user. Bad news are announced at once. */
export function Notice({ tone = 'plain', children }: { tone?: Tone; children: ReactNode }) {
  return (
    <div className="notice" data-tone={tone} role={tone === 'bad' ? 'alert' : 'status'}>
      {children}
    </div>
  );
}
