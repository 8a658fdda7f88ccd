import { describe } from 'vitest';
import { artifactSuite } from './suite/artifacts.ts';
import { choiceRecordSuite } from './suite/choice-records.ts';
import { exchangeSuite } from './suite/exchange.ts';
import type { MakeHarness } from './suite/harness.ts';
import { idempotencySuite } from './suite/idempotency.ts';
import { jobControlSuite } from './suite/job-control.ts';
import { jobSuite } from './suite/jobs.ts';
import { keySuite } from './suite/keys.ts';
import { modelSuite } from './suite/models.ts';
import { pagingSuite } from './suite/paging.ts';
import { retentionSuite } from './suite/retention.ts';

/** What every `Store` must do, whatever lies under it. */
export function storeSuite(name: string, makeHarness: MakeHarness): void {
  describe(`Store: ${name}`, () => {
    keySuite(makeHarness);
    modelSuite(makeHarness);
    jobSuite(makeHarness);
    jobControlSuite(makeHarness);
    pagingSuite(makeHarness);
    idempotencySuite(makeHarness);
    artifactSuite(makeHarness);
    exchangeSuite(makeHarness);
    choiceRecordSuite(makeHarness);
    retentionSuite(makeHarness);
  });
}
