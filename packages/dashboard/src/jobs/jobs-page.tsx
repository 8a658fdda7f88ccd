import { Page } from '../components/page.tsx';
import { JobTable } from './job-table.tsx';

/** Training jobs of all models. */
export function JobsPage() {
  return (
    <Page title="Jobs">
      <JobTable modelId={null} />
    </Page>
  );
}
