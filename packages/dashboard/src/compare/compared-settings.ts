/** Settings of one run, by name. */
export type RunSettings = Readonly<Record<string, unknown>>;

export interface ComparedSetting {
  readonly name: string;
  /** One text per run; `–` if a run does not have the setting. */
  readonly values: readonly string[];
}

/** Settings that are not the same for all runs, in the order of their names. */
export function differingSettings(runs: readonly RunSettings[]): ComparedSetting[] {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run)))].toSorted();
  return names
    .map((name) => ({ name, values: runs.map((run) => textOf(run[name])) }))
    .filter(({ values }) => new Set(values).size > 1);
}

function textOf(value: unknown): string {
  if (value === undefined) return '–';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
