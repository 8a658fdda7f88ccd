import './model-page.css';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';

import { modelQuery } from '../api/models.ts';
import { Fault } from '../components/fault.tsx';
import { Page } from '../components/page.tsx';
import { ChartsTab } from './charts-tab.tsx';
import { MODEL_TABS } from './model-tabs.ts';
import { RolloutsTab } from '../rollouts/rollouts-tab.tsx';
import { OverviewTab } from './overview-tab.tsx';

/** One model: how it learns. */
export function ModelPage({ modelId, tab = '' }: { modelId: string; tab: string | undefined }) {
  const { data: model, error } = useQuery(modelQuery(modelId));
  const base = `/models/${encodeURIComponent(modelId)}`;
  if (model === undefined)
    return (
      <Page title="Model" path={<Link href="/models">Models</Link>}>
        {error === null ? null : <Fault error={error} />}
      </Page>
    );
  return (
    <Page
      title={model.name}
      path={
        <>
          <Link href="/models">Models</Link> / {model.project}
        </>
      }
    >
      <nav className="tabs" aria-label="Of this model">
        {MODEL_TABS.map(({ path, text }) => (
          <Link
            key={path}
            href={path === '' ? base : `${base}/${path}`}
            aria-current={path === tab ? 'page' : undefined}
          >
            {text}
          </Link>
        ))}
      </nav>
      {tab === 'charts' ? (
        <ChartsTab model={model} />
      ) : tab === 'rollouts' ? (
        <RolloutsTab model={model} />
      ) : (
        <OverviewTab model={model} />
      )}
    </Page>
  );
}
