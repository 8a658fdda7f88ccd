import './go-to-dialog.css';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { type KeyboardEvent, useMemo, useState } from 'react';
import { useLocation } from 'wouter';

import { useAllModels } from '../api/all-models.ts';
import { guidesQuery } from '../api/guides.ts';
import { jobsQuery } from '../api/jobs.ts';
import { useMay } from '../api/session.ts';
import { Dialog } from '../components/actions/dialog.tsx';
import { matchingModels } from '../components/lists/model-filter.ts';
import { shownName } from '../components/shown-name.ts';
import { foundPlaces, guidePlaces, type Place, placesOf, placesOfId } from './go-to.ts';
import { navLinksOf } from './nav-links.ts';

/** Search for a page, a model, a job, a rollout or a document, by keyboard: Ctrl-K. */
export function GoToDialog({ scopes, onClose }: { scopes: readonly string[]; onClose: () => void }) {
  const [search, setSearch] = useState('');
  const [chosen, setChosen] = useState(0);
  const [, navigate] = useLocation();
  const mayTrain = useMay('training');
  const { models: all } = useAllModels({ enabled: mayTrain });
  const { data: newest } = useInfiniteQuery({ ...jobsQuery(null), enabled: mayTrain });
  const places = useMemo(() => {
    const jobs = newest?.pages.flatMap((page) => page.data) ?? [];
    return placesOf(navLinksOf(scopes), matchingModels(all, {}), jobs);
  }, [scopes, all, newest]);
  const { data: guides } = useQuery(guidesQuery(search));
  const found = [
    ...(mayTrain ? placesOfId(search) : []),
    ...foundPlaces(places, search),
    ...guidePlaces(search === '' ? [] : (guides ?? [])),
  ];
  const go = (place: Place | undefined) => {
    if (place === undefined) return;
    onClose();
    if (place.kind === 'document' || place.kind === 'guide') location.assign(place.href);
    else navigate(place.href);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move !== undefined) {
      event.preventDefault();
      setChosen((chosen + move + found.length) % Math.max(1, found.length));
    }
    if (event.key === 'Enter') {
      event.preventDefault();
      go(found[chosen]);
    }
  };
  return (
    <Dialog title="Go to" isOpen onClose={onClose}>
      <input
        className="input"
        role="combobox"
        aria-label="Search pages, models, jobs and guides"
        aria-expanded="true"
        aria-controls="go-to-places"
        aria-activedescendant={found[chosen] === undefined ? undefined : `go-to-${chosen}`}
        placeholder="Page, model, job, id, words of a guide …"
        value={search}
        onChange={({ target }) => {
          setSearch(target.value);
          setChosen(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id="go-to-places" className="go-to-places" role="listbox" aria-label="Places">
        {found.map((place, index) => (
          <li
            key={`${place.kind} ${place.href}`}
            id={`go-to-${index}`}
            role="option"
            aria-selected={index === chosen}
            onMouseEnter={() => setChosen(index)}
            onClick={() => go(place)}
          >
            <span>{shownName(place.text)}</span>
            <small className="soft">{place.kind}</small>
          </li>
        ))}
      </ul>
      {found.length === 0 ? <p className="soft">Nothing has these words.</p> : null}
    </Dialog>
  );
}
