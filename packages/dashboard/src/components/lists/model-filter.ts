import type { ModelDetailsObject } from '@trainyard/sdk';

export type FilteredModel = Pick<ModelDetailsObject, 'project' | 'name' | 'base_model' | 'tags' | 'archived_at'>;

/** An omitted part matches all, except that archived models are left out. */
export interface ModelFilter {
  /** Words, each in the name, the project, the base model or a tag. */
  readonly search?: string;
  readonly project?: string;
  /** Any of these; empty: all models. */
  readonly tags?: readonly string[];
  readonly isArchived?: boolean;
}

export function matchingModels<Model extends FilteredModel>(
  models: readonly Model[],
  { search = '', project = '', tags = [], isArchived = false }: ModelFilter,
): Model[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return models.filter((model) => {
    const text = `${model.project}/${model.name} ${model.base_model} ${model.tags.join(' ')}`.toLowerCase();
    return (
      (model.archived_at !== null) === isArchived &&
      (project === '' || model.project === project) &&
      (tags.length === 0 || tags.some((tag) => model.tags.includes(tag))) &&
      words.every((word) => text.includes(word))
    );
  });
}

/** All tags of the models, sorted. */
export function tagsOf(models: readonly Pick<FilteredModel, 'tags'>[]): string[] {
  return [...new Set(models.flatMap(({ tags }) => tags))].toSorted();
}
