import { keepPreviousData, queryOptions } from '@tanstack/react-query';

import { notingFetch } from './answering.ts';

/** Part of a guide that a search found. */
export interface GuideHit {
  readonly title: string;
  /** Null for the start of the guide. */
  readonly heading: string | null;
  readonly href: string;
}

/** Guides with some words, best first; none for a service without guides. */
export function guidesQuery(words: string) {
  const q = words.trim().slice(0, 200);
  return queryOptions({
    queryKey: ['guides', q],
    queryFn: async ({ signal }) => {
      const response = await notingFetch(`/guides/search.json?${new URLSearchParams({ q })}`, { signal });
      return response.ok ? ((await response.json()) as { hits: GuideHit[] }).hits : [];
    },
    enabled: q.length > 1,
    staleTime: Infinity,
    placeholderData: keepPreviousData,
  });
}
