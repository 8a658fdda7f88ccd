import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { LINEAR_NAMES, LocalVersions, type LearnerSession, type LoraConfig } from '@trainyard/trainer';
import {
  type LearnerHarness,
  learnerSessionSuite,
  randomSource,
  TINY_ARCHITECTURE,
  writeTinyGguf,
} from '@trainyard/trainer/testing';

import { TINKER_PROFILES } from '../profiles/tinker-profiles.ts';
import type { TinkerProfile } from '../profiles/tinker-profile.ts';
import { type FakeDialect, HOSTED_LIKE, JSON_LIKE, SKYRL_0_3, SKYRL_0_4 } from '../testing/fake-dialect.ts';
import type { Fault, SeenRequest } from '../testing/fake-tinker-server.ts';
import { FakeTinkerServer, tinyPolicy } from '../testing/fake-tinker-server.ts';
import { BENCH_ROWS, TinkerBench } from '../testing/tinker-bench.ts';
import { intakeFor } from './adapter-intake.ts';
import { TinkerTrainer } from './tinker-trainer.ts';

async function over(
  dialect: FakeDialect,
  profile: TinkerProfile,
  faultOf: ((request: SeenRequest) => Fault | null) | null = null,
): Promise<LearnerHarness> {
  const bench = await TinkerBench.start(dialect, profile);
  if (faultOf !== null) bench.server.fault = faultOf;
  return {
    open: () => bench.learner(),
    rows: BENCH_ROWS,
    versionName: (label) => label,
    destroy: () => bench.close(),
  };
}

/**
 * @param remembered routes whose repeat gets the same answer; on the others nothing is lost, because they are
 * never sent twice
 */
function chaos(seed: number, remembered: RegExp): (request: SeenRequest) => Fault | null {
  const random = randomSource(seed);
  const faults: readonly Fault[] = [
    { kind: 'status', status: 429 },
    { kind: 'status', status: 503 },
    { kind: 'lostReply' },
    { kind: 'twice' },
    { kind: 'pending' },
    { kind: 'announced' },
  ];
  return ({ route }) => {
    const isPoll = route === 'retrieve_future';
    // A duplicate model would take a slot, so its creation is never repeated.
    if (!isPoll && !/^(?:forward|optim|save|load)/.test(route)) return null;
    const at = Math.floor(((random() + 1) / 2) * faults.length * 3);
    const fault = faults[at] ?? null;
    if (fault === null || isPoll) return fault;
    if (fault.kind === 'pending' || fault.kind === 'announced') return null;
    const wasRefused = fault.kind === 'status' && fault.status === 429;
    return wasRefused || remembered.test(route) ? fault : null;
  };
}

const { skyrl, hosted, fireworks } = TINKER_PROFILES;

learnerSessionSuite('Tinker, SkyRL 0.4.0', () => over(SKYRL_0_4, skyrl));
learnerSessionSuite('Tinker, SkyRL 0.3.0', () => over(SKYRL_0_3, skyrl));
learnerSessionSuite('Tinker, hosted', () => over(HOSTED_LIKE, hosted));
learnerSessionSuite('Tinker, JSON', () => over(JSON_LIKE, fireworks));
learnerSessionSuite('Tinker, SkyRL 0.4.0 with faults', () => over(SKYRL_0_4, skyrl, chaos(5, /^(?:forward|optim)/)));
learnerSessionSuite('Tinker, hosted with faults', () => over(HOSTED_LIKE, hosted, chaos(6, /^/)));
learnerSessionSuite('Tinker, a transformer', overTransformer);

const LORA: LoraConfig = { rank: 3, alpha: 32, targets: LINEAR_NAMES, initSeed: 1 };

/** The whole path, with adapters that the importer checks against a GGUF file. */
async function overTransformer(): Promise<LearnerHarness> {
  const folder = mkdtempSync(join(tmpdir(), 'tinker-'));
  const modelPath = join(folder, 'base.gguf');
  writeTinyGguf(modelPath, TINY_ARCHITECTURE);
  const server = await FakeTinkerServer.start(SKYRL_0_4, tinyPolicy());
  const trainer = await TinkerTrainer.open({
    url: server.url,
    apiKey: null,
    baseModel: null,
    profile: skyrl,
    stateDirectory: join(folder, 'state'),
    operationTimeoutMs: 60_000,
    log: () => {},
  });
  const versions = new LocalVersions(join(folder, 'versions'));
  const open: LearnerSession[] = [];
  return {
    open: async () => {
      const parts = { model: TINY_ARCHITECTURE, versions, intake: intakeFor(modelPath), base: null };
      const session = await trainer.learner(LORA, parts);
      open.push(session);
      return session;
    },
    rows: BENCH_ROWS,
    versionName: (label) => label,
    destroy: async () => {
      for (const session of open) await session.close();
      trainer.close();
      await server.close();
      rmSync(folder, { recursive: true });
    },
  };
}
