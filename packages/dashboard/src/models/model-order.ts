import type { ModelDetailsObject } from '@trainyard/sdk';

/** Orders of the list, the first one by default. */
export const MODEL_ORDERS = [
  ['', 'newest'],
  ['name', 'name'],
  ['reward', 'reward'],
  ['best', 'best'],
  ['step', 'steps'],
] as const;

type Shown = Pick<ModelDetailsObject, 'project' | 'name' | 'base_model' | 'reward' | 'best' | 'latest_step'>;

/** Models whose names have all words of a search, in an order of {@link MODEL_ORDERS}; unknown values come last. */
export function orderedModels<Model extends Shown>(
  models: readonly Model[],
  { search, project, order }: { search: string; project: string; order: string },
): Model[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = models.filter((model) => {
    const text = `${model.project}/${model.name} ${model.base_model}`.toLowerCase();
    return (project === '' || model.project === project) && words.every((word) => text.includes(word));
  });
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
