import type { ModelDetailsObject } from '@trainyard/sdk';

import { type FilteredModel, matchingModels, type ModelFilter } from '../components/lists/model-filter.ts';

/** Orders of the list, the first one by default. */
export const MODEL_ORDERS = [
  ['', 'newest'],
  ['name', 'name'],
  ['reward', 'reward'],
  ['best', 'best'],
  ['step', 'steps'],
] as const;

type Ordered = FilteredModel & Pick<ModelDetailsObject, 'reward' | 'best' | 'latest_step'>;

/** Models that match a filter, in an order of {@link MODEL_ORDERS}; unknown values come last. */
export function orderedModels<Model extends Ordered>(
  models: readonly Model[],
  { order, ...filter }: ModelFilter & { order: string },
): Model[] {
  const found = matchingModels(models, filter);
  const by = (value: (model: Model) => number | null | undefined) =>
    found.toSorted((first, second) => (value(second) ?? -Infinity) - (value(first) ?? -Infinity) || 0);
  switch (order) {
    case 'name':
      return found.toSorted((first, second) =>
        `${first.project}/${first.name}`.localeCompare(`${second.project}/${second.name}`, 'en', { numeric: true }),
      );
    case 'reward':
      return by(({ reward }) => reward?.value);
    case 'best':
      return by(({ best }) => best?.value);
    case 'step':
      return by(({ latest_step: step }) => step);
    default:
      return found;
  }
}
