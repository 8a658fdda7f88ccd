import type { UsageGroupObject } from '@trainyard/sdk';

import type { UsageFilter } from '../api/usage.ts';

/** Option for usage of no project. Names of models hold no parentheses. */
const NO_PROJECT = '(none)';

/** Filter of the usage, from the address. */
export function usageFilterOf(parameters: URLSearchParams): UsageFilter {
  const text = (name: string) => parameters.get(name)?.trim() || undefined;
  const [project, key, model] = [text('project'), text('key'), text('model')];
  return {
    ...(project === undefined ? {} : { project: project === NO_PROJECT ? '' : project }),
    ...(key === undefined ? {} : { key }),
    ...(model === undefined ? {} : { model }),
  };
}

/** Project as pages show it. */
export function projectOf({ project }: { readonly project?: string | null }): string {
  return project ?? NO_PROJECT;
}

/** Names of keys by id; those with a common name have the start of their id too. */
export function keyLabels(groups: readonly Pick<UsageGroupObject, 'key_id' | 'key_name'>[]): Map<string, string> {
  const names = new Map(groups.map(({ key_id: id = '', key_name: name }) => [id, name ?? id]));
  const all = [...names.values()];
  return new Map(
    Array.from(names, ([id, name]) => {
      const isShared = all.indexOf(name) !== all.lastIndexOf(name);
      return [id, isShared ? `${name} (${id.slice(0, 8)})` : name];
    }),
  );
}
