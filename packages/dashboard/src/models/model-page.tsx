import './model-page.css';
import { useQuery } from '@tanstack/react-query';
import type { ModelDetailsObject } from '@trainyard/sdk';
import { Link } from 'wouter';

import { modelQuery } from '../api/models.ts';
import { Empty } from '../components/empty.tsx';
import { Fault } from '../components/fault.tsx';
import { Page } from '../components/page.tsx';
import { JobTable } from '../jobs/job-table.tsx';
import { ChartsTab } from './charts/charts-tab.tsx';
import { CheckpointsTab } from './checkpoints-tab.tsx';
import { ModelLabels } from './labels/model-labels.tsx';
import { ModelActions } from './model-actions.tsx';
import { MODEL_TABS } from './model-tabs.ts';
import { RolloutsTab } from '../rollouts/rollouts-tab.tsx';
import { OverviewTab } from './overview-tab.tsx';
import { SupervisedOverview } from './supervised-overview.tsx';
import type { ModelKind } from './model-kind.ts';
import { useModelKind } from './use-model-kind.ts';
import { shownName } from '../components/shown-name.ts';

/** One model and its training progress. */
export function ModelPage({ modelId, tab = '' }: { modelId: string; tab: string | undefined }) {
  const { data: model, error } = useQuery(modelQuery(modelId));
  const kind = useModelKind(modelId);
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
      subtitle={`on ${model.base_model}`}
      actions={<ModelActions model={model} />}
      path={
        <>
          <Link href="/models">Models</Link> / {shownName(model.project)}
        </>
      }
    >
      <ModelLabels model={model} />
      <nav className="tabs" aria-label="Views of this model">
        {MODEL_TABS.map(({ path, text }) => (
          <Link
            key={path}
            href={
              path === '' ? base : `${base}/${path}${path === 'charts' && kind === 'sft' ? '?axis=gradient_step' : ''}`
            }
            aria-current={path === tab ? 'page' : undefined}
          >
            {text}
          </Link>
        ))}
      </nav>
      <ModelTab model={model} kind={kind} tab={tab} />
    </Page>
  );
}

function ModelTab({ model, kind, tab }: { model: ModelDetailsObject; kind: ModelKind; tab: string }) {
  switch (tab) {
    case 'charts':
      return <ChartsTab model={model} />;
    case 'rollouts':
      return kind === 'sft' ? (
        <Empty title="No rollouts">This model learns from conversations, which are not sampled from it.</Empty>
      ) : (
        <RolloutsTab model={model} />
      );
    case 'checkpoints':
      return <CheckpointsTab model={model} />;
    case 'jobs':
      return <JobTable modelId={model.id} />;
    default:
      return kind === 'sft' ? <SupervisedOverview model={model} /> : <OverviewTab model={model} />;
  }
}
