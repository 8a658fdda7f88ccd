import { useInfiniteQuery } from '@tanstack/react-query';
import type { ModelDetailsObject } from '@trainyard/sdk';
import { useMemo } from 'react';

import { modelsQuery } from './models.ts';
import { useMoreWhile } from './more-pages.ts';

const NO_MODELS: readonly ModelDetailsObject[] = [];
/** Maximum number of models that a page loads. */
const MAX_MODELS = 5_000;

/**
 * All trained models, newest first, archived ones too: names, filters and search need them all. They come page
 * by page.
 * @returns `isRead`: true once the first page is there
 */
export function useAllModels({ enabled = true }: { readonly enabled?: boolean } = {}): {
  readonly models: readonly ModelDetailsObject[];
  readonly isRead: boolean;
  readonly error: Error | null;
} {
  const list = useInfiniteQuery({ ...modelsQuery, enabled });
  const { data, error } = list;
  const models = useMemo(() => data?.pages.flatMap((page) => page.data) ?? NO_MODELS, [data]);
  useMoreWhile(list, enabled && models.length < MAX_MODELS);
  return { models, isRead: data !== undefined, error };
}
