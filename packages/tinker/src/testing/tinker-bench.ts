import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { FixedScores } from '@trainyard/backend';
import { type LearnerSession, LocalVersions, type LoraConfig } from '@trainyard/trainer';
import { BIGRAM_ARCHITECTURE, BIGRAM_LORA, packTrie } from '@trainyard/trainer/testing';

import type { AdapterIntake } from '../driver/adapter-intake.ts';
import { TinkerTrainer, type TinkerTrainerOptions } from '../driver/tinker-trainer.ts';
import type { TinkerProfile } from '../profiles/tinker-profile.ts';
import { SYSTEM_CLOCK } from '../transport/clock.ts';
import type { FakeDialect } from './fake-dialect.ts';
import { bigramPolicy, type FakePolicy, FakeTinkerServer } from './fake-tinker-server.ts';

/** One row with a shared prompt and a branch, one separate. */
export const BENCH_ROWS = [
  packTrie([
    [
      { tokenIds: [3, 9, 14, 20, 31, 7], numPrompt: 3 },
      { tokenIds: [3, 9, 14, 20, 5, 40, 11], numPrompt: 3 },
    ],
  ]),
  packTrie([[{ tokenIds: [17, 2, 45, 23, 8, 30, 1, 12], numPrompt: 2 }]]),
];

const BENCH_LORA: LoraConfig = BIGRAM_LORA;

/** A fake server with its driver and temporary folders. */
export class TinkerBench {
  readonly server: FakeTinkerServer;
  readonly folder = mkdtempSync(join(tmpdir(), 'tinker-'));
  readonly versions = new LocalVersions(join(this.folder, 'versions'));
  readonly logged: string[] = [];
  readonly #profile: TinkerProfile;
  readonly #closing: (() => unknown)[] = [];
  #trainer: TinkerTrainer | null = null;

  static async start(
    dialect: FakeDialect,
    profile: TinkerProfile,
    policyOf: FakePolicy = bigramPolicy,
  ): Promise<TinkerBench> {
    return new TinkerBench(await FakeTinkerServer.start(dialect, policyOf), profile);
  }

  private constructor(server: FakeTinkerServer, profile: TinkerProfile) {
    this.server = server;
    this.#profile = profile;
  }

  async open(options: Partial<TinkerTrainerOptions> = {}): Promise<TinkerTrainer> {
    const trainer = await TinkerTrainer.open({
      url: this.server.url,
      apiKey: this.server.dialect.key,
      baseModel: null,
      profile: this.#profile,
      stateDirectory: join(this.folder, 'state'),
      operationTimeoutMs: 60_000,
      log: (line) => this.logged.push(line),
      // Retries do not wait; heartbeats and deadlines are not tested here.
      clock: { ...SYSTEM_CLOCK, sleep: async (_ms, signal) => signal?.throwIfAborted() },
      ...options,
    });
    this.#closing.push(() => trainer.close());
    return trainer;
  }

  async learner(base: FixedScores | null = null): Promise<LearnerSession> {
    this.#trainer ??= await this.open();
    return await this.learnerOf(this.#trainer, base);
  }

  async learnerOf(trainer: TinkerTrainer, base: FixedScores | null = null): Promise<LearnerSession> {
    const parts = { model: BIGRAM_ARCHITECTURE, versions: this.versions, intake: plainIntake, base };
    const learner = await trainer.learner(BENCH_LORA, parts);
    this.#closing.push(() => learner.close());
    return learner;
  }

  async close(): Promise<void> {
    this.server.fault = () => null;
    for (const close of this.#closing.reverse()) await close();
    await this.server.close();
    rmSync(this.folder, { recursive: true });
  }
}

const plainIntake: AdapterIntake = ({ files, outputDirectory }) => {
  writeFileSync(join(outputDirectory, 'adapter_config.json'), files.config);
  writeFileSync(join(outputDirectory, 'adapter_model.safetensors'), files.weights);
  return createHash('sha256').update(files.weights).digest('hex');
};
