import '../../components/field.css';
import { useInfiniteQuery } from '@tanstack/react-query';
import type { ModelDetailsObject } from '@trainyard/sdk';

import { modelsQuery } from '../../api/models.ts';
import { useMorePages } from '../../api/more-pages.ts';
import { Button } from '../../components/button.tsx';
import { Menu, MenuCheck, MenuMore } from '../../components/actions/menu.tsx';
import { CHART_AXES, type ChartView, MAX_OTHER_MODELS } from './use-chart-view.ts';
import { shownName } from '../../components/shown-name.ts';

/** Drawing options: smoothing, logarithmic axis, kind of steps, models to compare. */
export function ChartToolbar({
  model,
  view,
  onChange,
}: {
  model: ModelDetailsObject;
  view: ChartView;
  onChange: (change: Partial<ChartView>) => void;
}) {
  return (
    <div className="chart-toolbar" role="group" aria-label="Chart options">
      <input
        className="input chart-search"
        type="search"
        aria-label="Search charts"
        placeholder="Search charts, or /pattern/"
        value={view.search}
        onChange={({ target }) => onChange({ search: target.value })}
      />
      <label>
        Smooth
        <input
          type="range"
          min={0}
          max={0.98}
          step={0.02}
          value={view.smoothing}
          onChange={(event) => onChange({ smoothing: Number(event.target.value) })}
        />
      </label>
      <label>
        <input type="checkbox" checked={view.isLog} onChange={(event) => onChange({ isLog: event.target.checked })} />
        Logarithmic
      </label>
      <label>
        Over
        <select
          className="input"
          value={view.axis}
          onChange={(event) => onChange({ axis: event.target.value as ChartView['axis'], from: null, to: null })}
        >
          {Object.entries(CHART_AXES).map(([axis, name]) => (
            <option key={axis} value={axis}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <PlaceInput label="From" place={view.from} onChange={(from) => onChange({ from })} />
      <PlaceInput label="To" place={view.to} onChange={(to) => onChange({ to })} />
      <CompareMenu model={model} view={view} onChange={onChange} />
      {view.hidden.length === 0 ? null : (
        <Button look="quiet" onClick={() => onChange({ hidden: [] })}>
          Show {view.hidden.length} hidden
        </Button>
      )}
      {view.from === null && view.to === null ? null : (
        <Button look="quiet" onClick={() => onChange({ from: null, to: null })}>
          Show all
        </Button>
      )}
    </div>
  );
}

/** One end of the shown range; dragging over a chart sets both. */
function PlaceInput({
  label,
  place,
  onChange,
}: {
  label: string;
  place: number | null;
  onChange: (place: number | null) => void;
}) {
  return (
    <label>
      {label}
      <input
        className="input place-input"
        type="number"
        min={0}
        step={1}
        value={place ?? ''}
        placeholder="all"
        onChange={({ target }) => onChange(/^\d{1,15}$/.test(target.value) ? Number(target.value) : null)}
      />
    </label>
  );
}

function CompareMenu({
  model,
  view: { withModels },
  onChange,
}: {
  model: ModelDetailsObject;
  view: ChartView;
  onChange: (change: Partial<ChartView>) => void;
}) {
  const list = useInfiniteQuery(modelsQuery);
  const more = useMorePages(list);
  const { data, hasNextPage } = list;
  const others = (data?.pages.flatMap((page) => page.data) ?? []).filter(
    ({ id, archived_at: archivedAt }) => id !== model.id && archivedAt === null,
  );
  if (others.length === 0 && !hasNextPage) return null;
  return (
    <Menu label={withModels.length === 0 ? 'Compare' : `Compare (${withModels.length})`}>
      {others.map(({ id, name, project }) => (
        <MenuCheck
          key={id}
          isChecked={withModels.includes(id)}
          isDisabled={!withModels.includes(id) && withModels.length >= MAX_OTHER_MODELS}
          onChange={(isChecked) =>
            onChange({ withModels: isChecked ? [...withModels, id] : withModels.filter((other) => other !== id) })
          }
        >
          {shownName(`${project}/${name}`)}
        </MenuCheck>
      ))}
      {hasNextPage ? <MenuMore onSelect={more}>More models</MenuMore> : null}
    </Menu>
  );
}
