import { useSearchParams } from 'wouter';

import { useAllModels } from '../api/all-models.ts';
import type { JobFilter } from '../api/jobs.ts';
import { allOr, FilterSelect } from '../components/lists/filter-select.tsx';
import { ProjectFilter } from '../components/lists/project-filter.tsx';
import { Page } from '../components/page.tsx';
import { KIND_WORDS } from './job-state.ts';
import { JobTable } from './job-table.tsx';

const STATUSES = ['queued', 'running', 'succeeded', 'failed', 'cancelled'] as const;
const KINDS = ['rl', 'sft'] as const;

/** Training jobs of all models, by status, kind and project. */
export function JobsPage() {
  const [parameters] = useSearchParams();
  const { models } = useAllModels();
  const project = parameters.get('project') ?? '';
  const status = STATUSES.find((one) => one === parameters.get('status'));
  const kind = KINDS.find((one) => one === parameters.get('kind'));
  const filter: JobFilter = {
    ...(status === undefined ? {} : { status }),
    ...(kind === undefined ? {} : { kind }),
    ...(project === '' ? {} : { project }),
  };
  return (
    <Page title="Jobs">
      <div className="filters">
        <FilterSelect name="status" label="State" options={allOr(STATUSES)} />
        <FilterSelect
          name="kind"
          label="Kind"
          options={[['', 'all'], ...KINDS.map((one) => [one, KIND_WORDS[one]] as const)]}
        />
        <ProjectFilter projects={models.map((model) => model.project)} />
      </div>
      <JobTable modelId={null} filter={filter} models={models} />
    </Page>
  );
}
