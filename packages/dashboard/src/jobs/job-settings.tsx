import type { TrainingJobObject } from '@trainyard/sdk';

import { shownName } from '../components/shown-name.ts';

/** Settings of a job: those that differ from their defaults, then the defaults, folded. */
export function JobSettings({ job }: { job: TrainingJobObject }) {
  const changed = new Set(job.changed_config_keys);
  const all = Object.entries(job.config);
  const own = all.filter(([name]) => changed.has(name));
  const defaults = all.filter(([name]) => !changed.has(name));
  return (
    <>
      <h2>Settings</h2>
      <h3>Changed ({own.length})</h3>
      {own.length === 0 ? <p className="soft">All settings are defaults.</p> : <Settings entries={own} />}
      <details className="job-defaults">
        <summary>Defaults ({defaults.length})</summary>
        <Settings entries={defaults} />
      </details>
      {job.ignored_config_keys.length === 0 ? null : (
        <p className="soft">Without effect: {shownName(job.ignored_config_keys.join(', '))}</p>
      )}
    </>
  );
}

function Settings({ entries }: { entries: readonly (readonly [string, unknown])[] }) {
  return (
    <dl className="config-list">
      {entries.map(([name, value]) => (
        <div key={name} style={{ display: 'contents' }}>
          <dt>{shownName(name)}</dt>
          <dd className="mono">{shownName(typeof value === 'string' ? value : JSON.stringify(value))}</dd>
        </div>
      ))}
    </dl>
  );
}
