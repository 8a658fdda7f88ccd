import '../../components/field.css';
import type { TrajectoryObject } from '@trainyard/sdk';
import { useEffect, useState } from 'react';

import { Button } from '../../components/button.tsx';
import { Menu, MenuItem } from '../../components/actions/menu.tsx';
import { shownName } from '../../components/shown-name.ts';
import { OUTCOMES, outcomeWords } from '../outcome-words.ts';
import { type FilterName, FILTERS, PARAMETERS, type RolloutView } from './rollout-view.ts';

const NAMES: Readonly<Record<FilterName, string>> = {
  outcome: 'Outcome',
  reward: 'Reward',
  step: 'Step',
  split: 'Split',
  job: 'Job',
  log: 'Log',
  group: 'Group',
  ended: 'Ended by',
};
const ENDS = ['stop', 'length', 'tool_calls', 'content_filter'];
const SPLITS = ['train', 'val', 'test'];

/** The filters of a table, each as a chip with its value, and a menu of the others. */
export function FilterChips({
  view,
  parameters,
  newest,
  onChange,
}: {
  view: RolloutView;
  parameters: URLSearchParams;
  /** Its values are the first ones of a new filter. */
  newest: TrajectoryObject;
  onChange: (changes: Readonly<Record<string, string | null>>) => void;
}) {
  const others = FILTERS.filter((name) => !view.active.includes(name));
  const remove = (names: readonly FilterName[]) =>
    onChange(Object.fromEntries(names.flatMap((name) => PARAMETERS[name]).map((parameter) => [parameter, null])));
  return (
    <>
      {view.active.map((name) => (
        <span key={name} className="filter-chip" role="group" aria-label={`Filter: ${NAMES[name]}`}>
          <ChipValue name={name} parameters={parameters} onChange={onChange} />
          <Button look="quiet" aria-label={`Remove filter: ${NAMES[name]}`} onClick={() => remove([name])}>
            ×
          </Button>
        </span>
      ))}
      <Menu label="Filter" name="Add a filter">
        {others.map((name) => (
          <MenuItem key={name} onSelect={() => onChange(firstValue(name, newest))}>
            {NAMES[name]}
          </MenuItem>
        ))}
      </Menu>
      {view.active.length > 1 ? (
        <Button look="quiet" onClick={() => remove(view.active)}>
          Clear all
        </Button>
      ) : null}
    </>
  );
}

function firstValue(name: FilterName, newest: TrajectoryObject): Record<string, string> {
  const { outcome, step, split, job_id: job, log_id: log, group } = newest;
  switch (name) {
    case 'outcome':
      return { outcome: outcome ?? 'trained' };
    case 'reward':
      return { min: '0', max: '' };
    case 'step':
      return { step: String(step) };
    case 'split':
      return { split };
    case 'job':
      return { job: job ?? '' };
    case 'log':
      return { log: log ?? '' };
    case 'group':
      return { group: String(group) };
    case 'ended':
      return { ended: 'length' };
  }
}

function ChipValue({
  name,
  parameters,
  onChange,
}: {
  name: FilterName;
  parameters: URLSearchParams;
  onChange: (changes: Readonly<Record<string, string | null>>) => void;
}) {
  const value = (parameter: string) => parameters.get(parameter) ?? '';
  const set = (parameter: string) => (text: string) => onChange({ [parameter]: text });
  switch (name) {
    case 'outcome':
      return (
        <Choice label={NAMES[name]} value={value(name)} choices={OUTCOMES} wordOf={outcomeWord} onChange={set(name)} />
      );
    case 'ended':
      return <Choice label={NAMES[name]} value={value(name)} choices={ENDS} onChange={set(name)} />;
    case 'split':
      return <Choice label={NAMES[name]} value={value(name)} choices={SPLITS} onChange={set(name)} />;
    case 'reward':
      return (
        <>
          <Typed label="Reward from" value={value('min')} isNumber onChange={set('min')} />
          <Typed label="to" value={value('max')} isNumber onChange={set('max')} />
        </>
      );
    case 'step':
    case 'group':
      return <Typed label={NAMES[name]} value={value(name)} isNumber onChange={set(name)} />;
    case 'job':
    case 'log':
      return <Typed label={NAMES[name]} value={value(name)} onChange={set(name)} />;
  }
}

function outcomeWord(outcome: string): string {
  return outcomeWords(outcome, false).short;
}

function Choice({
  label,
  value,
  choices,
  wordOf = (choice) => choice.replaceAll('_', ' '),
  onChange,
}: {
  label: string;
  value: string;
  choices: readonly string[];
  wordOf?: (choice: string) => string;
  onChange: (value: string) => void;
}) {
  const all = choices.includes(value) || value === '' ? choices : [value, ...choices];
  return (
    <label>
      {label}
      <select className="input" value={value} onChange={({ target }) => onChange(target.value)}>
        {all.map((choice) => (
          <option key={choice} value={choice}>
            {shownName(wordOf(choice))}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A value that applies with Enter and when the input is left. */
function Typed({
  label,
  value,
  isNumber = false,
  onChange,
}: {
  label: string;
  value: string;
  isNumber?: boolean;
  onChange: (value: string) => void;
}) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  const apply = () => {
    if (typed !== value) onChange(typed.trim());
  };
  return (
    <label>
      {label}
      <input
        className="input"
        {...(isNumber ? { inputMode: 'decimal' as const } : {})}
        value={typed}
        onChange={({ target }) => setTyped(target.value)}
        onBlur={apply}
        onKeyDown={({ key }) => {
          if (key === 'Enter') apply();
        }}
      />
    </label>
  );
}
