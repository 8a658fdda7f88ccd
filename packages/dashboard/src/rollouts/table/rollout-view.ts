import type { RolloutFilter } from '../../api/rollouts.ts';

type Sort = NonNullable<RolloutFilter['sort']>;

/** Filters of the table that are chips. Each is a parameter of the address. */
export type FilterName = 'outcome' | 'reward' | 'step' | 'split' | 'job' | 'log' | 'group' | 'ended';

/** Parameters of each filter in the address. */
export const PARAMETERS: Readonly<Record<FilterName, readonly string[]>> = {
  outcome: ['outcome'],
  reward: ['min', 'max'],
  step: ['step'],
  split: ['split'],
  job: ['job'],
  log: ['log'],
  group: ['group'],
  ended: ['ended'],
};
export const FILTERS = Object.keys(PARAMETERS) as readonly FilterName[];

/** View of a table of rollouts, as the address has it. */
export interface RolloutView {
  /** Filter and order for the service. */
  readonly filter: RolloutFilter;
  readonly active: readonly FilterName[];
  readonly sort: Sort;
  readonly order: 'asc' | 'desc';
  /** Names of the chosen columns; null: the default ones. */
  readonly columns: readonly string[] | null;
  readonly text: string;
}

const SORTS: readonly Sort[] = ['position', 'reward', 'num_tokens', 'num_turns'];

/** Reads the address. Values that the service would refuse are left out. */
export function readView(parameters: URLSearchParams): RolloutView {
  const text = parameters.get('text') ?? '';
  const wanted = parameters.get('sort') ?? 'position';
  // The search works only in order of arrival.
  const sort = text === '' ? (SORTS.find((name) => name === wanted) ?? 'position') : 'position';
  const order = parameters.get('order') === 'asc' ? 'asc' : 'desc';
  const filter: RolloutFilter = {
    order,
    ...(sort === 'position' ? {} : { sort }),
    ...given('outcome', parameters.get('outcome')),
    ...given('min_reward', numberOf(parameters.get('min'))),
    ...given('max_reward', numberOf(parameters.get('max'))),
    ...given('step', wholeOf(parameters.get('step'))),
    ...given('split', parameters.get('split')),
    ...given('job_id', parameters.get('job')),
    ...given('log_id', parameters.get('log')),
    ...given('group', wholeOf(parameters.get('group'))),
    ...given('finish_reason', parameters.get('ended')),
    ...given('text', text),
  };
  const columns = parameters.get('columns');
  return {
    filter,
    active: FILTERS.filter((name) => PARAMETERS[name].some((parameter) => parameters.has(parameter))),
    sort,
    order,
    columns: columns === null ? null : columns.split(',').filter((name) => name !== ''),
    text,
  };
}

function given<Name extends string, Value>(name: Name, value: Value | null): { [Key in Name]?: Value } {
  return value === null || value === '' ? {} : ({ [name]: value } as { [Key in Name]: Value });
}

export function numberOf(text: string | null): number | null {
  const value = text === null || text.trim() === '' ? Number.NaN : Number(text);
  return Number.isFinite(value) ? value : null;
}

function wholeOf(text: string | null): number | null {
  const value = numberOf(text);
  return value !== null && Number.isInteger(value) && value >= 0 && value < 2 ** 31 ? value : null;
}
