import type { ModelDetailsObject, TrainingJobObject } from '@trainyard/sdk';

import type { GuideHit } from '../api/guides.ts';
import type { NAV_LINKS } from './nav-links.ts';

/** A place that the search of Ctrl-K leads to. */
export interface Place {
  readonly text: string;
  /** Kind of place, such as `page`. */
  readonly kind: string;
  readonly href: string;
}

const MAX_SHOWN = 12;
const MAX_GUIDES = 6;

/** Places of the service: pages, models with their tabs, jobs, and documents. */
export function placesOf(
  links: readonly (typeof NAV_LINKS)[number][],
  models: readonly Pick<ModelDetailsObject, 'id' | 'entity' | 'project' | 'name'>[],
  jobs: readonly Pick<TrainingJobObject, 'id' | 'model_id' | 'status'>[],
): Place[] {
  const nameOf = new Map(models.map(({ id, project, name }) => [id, `${project}/${name}`]));
  const maySample = links.some(({ href }) => href === '/chat');
  return [
    ...links.map(({ href, text }) => ({ text, kind: 'page', href })),
    ...(links.some(({ href }) => href === '/models') ? [{ text: 'Compare runs', kind: 'page', href: '/compare' }] : []),
    ...models.flatMap(({ id, entity, project, name }) => {
      const page = `/models/${encodeURIComponent(id)}`;
      const chat = `/chat?${new URLSearchParams({ model: `${entity}/${project}/${name}` })}`;
      return [
        { text: `${project}/${name}`, kind: 'model', href: page },
        { text: `${project}/${name}`, kind: 'charts', href: `${page}/charts` },
        { text: `${project}/${name}`, kind: 'rollouts', href: `${page}/rollouts` },
        ...(maySample ? [{ text: `${project}/${name}`, kind: 'chat', href: chat }] : []),
      ];
    }),
    ...jobs.map(({ id, model_id: modelId, status }) => ({
      text: `${id.slice(0, 8)} ${status} ${nameOf.get(modelId) ?? ''}`,
      kind: 'job',
      href: `/jobs/${encodeURIComponent(id)}`,
    })),
    { text: 'Guides', kind: 'document', href: '/guides' },
    { text: 'API reference', kind: 'document', href: '/docs' },
    { text: 'OpenAPI document', kind: 'document', href: '/openapi.json' },
  ];
}

/** Places with all words of a search in their text or kind; earlier matches in the text come first. */
export function foundPlaces(places: readonly Place[], search: string): Place[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return places
    .map((place) => ({ place, text: `${place.text} ${place.kind}`.toLowerCase() }))
    .filter(({ text }) => words.every((word) => text.includes(word)))
    .map(({ place, text }) => ({ place, rank: words.length === 0 ? 0 : text.indexOf(words[0]!) }))
    .toSorted((first, second) => first.rank - second.rank)
    .slice(0, MAX_SHOWN)
    .map(({ place }) => place);
}

const ID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/;

/** Pages of a whole id that was pasted: a rollout, or else a job and a model. */
export function placesOfId(search: string): Place[] {
  const text = search.trim();
  if (!ID.test(text)) return [];
  const kinds = /\.\d+\.\d+$/.test(text) ? ['rollout'] : text.length === 36 ? ['job', 'model'] : [];
  return kinds.map((kind) => ({ text, kind, href: `/${kind}s/${encodeURIComponent(text)}` }));
}

/** Places of the guides that a search found, best first. */
export function guidePlaces(hits: readonly GuideHit[]): Place[] {
  return hits.slice(0, MAX_GUIDES).map(({ title, heading, href }) => ({
    text: heading === null ? title : `${title} › ${heading}`,
    kind: 'guide',
    href,
  }));
}
