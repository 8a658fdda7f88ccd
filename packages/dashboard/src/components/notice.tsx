import './notice.css';
import type { ReactNode } from 'react';

export type Tone = 'plain' | 'good' | 'warn' | 'bad';

/** Something that a person should know before going on. Bad news are read out at once. */
export function Notice({ tone = 'plain', children }: { tone?: Tone; children: ReactNode }) {
  return (
    <div className="notice" data-tone={tone} role={tone === 'bad' ? 'alert' : 'status'}>
      {children}
    </div>
  );
}
