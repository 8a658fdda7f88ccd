import type { UsageGroupObject } from '@trainyard/sdk';

import type { UsagePart } from '../api/usage.ts';

/** Filter of the usage, from the address; empty texts match all. */
export interface UsageFilter {
  readonly project: string;
  /** Id of a key. */
  readonly key: string;
  /** Part of a model's name. */
  readonly model: string;
}

export function usageFilterOf(parameters: URLSearchParams): UsageFilter {
  const text = (name: string) => parameters.get(name) ?? '';
  return { project: text('project'), key: text('key'), model: text('model').trim().toLowerCase() };
}

/** Parts that usage must be grouped by, so that it can be filtered. */
export function filteredParts(parts: readonly UsagePart[], { project, key, model }: UsageFilter): UsagePart[] {
  const needed: UsagePart[] = [
    ...(project === '' ? [] : (['project', 'model'] as const)),
    ...(key === '' ? [] : (['key'] as const)),
    ...(model === '' ? [] : (['model'] as const)),
  ];
  // In one order, so that equal questions are asked once.
  return [...new Set([...parts, ...needed])].toSorted();
}

/** @param group with the parts of the filter */
export function isShown(group: UsageGroupObject, { project, key, model }: UsageFilter): boolean {
  return (
    (project === '' || projectOf(group) === project) &&
    (key === '' || group.key_id === key) &&
    (model === '' || (group.model ?? '').toLowerCase().includes(model))
  );
}

/** Project named in the requests, or else that of the trained model. */
export function projectOf({ project, model = '' }: UsageGroupObject): string {
  const parts = model.split('/');
  return project ?? (parts.length === 3 ? parts[1]! : '(none)');
}
