import { describe } from 'vitest';
import { artifactSuite } from './artifacts.ts';
import { blobSafetySuite } from './blob-safety.ts';
import { folderHarness } from './folder-harness.ts';
import { choiceRecordSuite } from './choice-records.ts';
import { clockJumpSuite } from './clock-jumps.ts';
import { trajectorySuite } from './trajectories.ts';
import { transferSuite } from './transfer.ts';
import type { MakeHarness } from './harness.ts';
import { idempotencySuite } from './idempotency.ts';
import { jobControlSuite } from './job-control.ts';
import { jobKindSuite } from './job-kinds.ts';
import { jobSuite } from './jobs.ts';
import { conversationSuite } from './conversations.ts';
import { keptAnswerSuite } from './kept-answers.ts';
import { keyLimitSuite } from './key-limits.ts';
import { keySuite } from './keys.ts';
import { memberSuite } from './members.ts';
import { checkpointRetentionSuite } from './checkpoint-retention.ts';
import { modelSuite } from './models.ts';
import { pagingSuite } from './paging.ts';
import { retentionSuite } from './retention.ts';
import { runSuite } from './runs.ts';
import { signInSuite } from './sign-ins.ts';
import { severalProcessesSuite } from './several-processes.ts';

/** Required behaviour of every `Store`. */
export function storeSuite(name: string, makeHarness: MakeHarness): void {
  describe(`Store: ${name}`, () => {
    keySuite(makeHarness);
    keyLimitSuite(makeHarness);
    signInSuite(makeHarness);
    modelSuite(makeHarness);
    checkpointRetentionSuite(makeHarness);
    jobSuite(makeHarness);
    jobControlSuite(makeHarness);
    jobKindSuite(makeHarness);
    pagingSuite(makeHarness);
    idempotencySuite(makeHarness);
    artifactSuite(makeHarness);
    transferSuite(makeHarness);
    choiceRecordSuite(makeHarness);
    keptAnswerSuite(makeHarness);
    conversationSuite(makeHarness);
    retentionSuite(makeHarness);
    runSuite(makeHarness);
    trajectorySuite(makeHarness);
    severalProcessesSuite(makeHarness);
    memberSuite(makeHarness);
    blobSafetySuite(makeHarness, folderHarness);
    clockJumpSuite(makeHarness);
  });
}
