import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { FixedScores } from '@trainyard/backend';
import { type LearnerSession, type LoraConfig, makeFolders, replaceFile } from '@trainyard/trainer';

import type { TinkerProfile } from '../profiles/tinker-profile.ts';
import { type Clock, SYSTEM_CLOCK } from '../transport/clock.ts';
import { ModelJournal } from '../transport/model-journal.ts';
import { unloadModel } from '../transport/remote-model.ts';
import { contactServer, type ServerFacts } from '../transport/server-facts.ts';
import type { PeftFiles } from './adapter-archive.ts';
import type { AdapterIntake } from './adapter-intake.ts';
import type { InitialScale } from './initial-scale.ts';
import { type Proof, proveServer } from './prove-server.ts';
import { TinkerLearner, type TinkerLearnerParts } from './tinker-learner.ts';

export interface TinkerTrainerOptions {
  /** Address of the server, without `/api/v1`. */
  readonly url: string;
  /** Null if the server needs none. */
  readonly apiKey: string | null;
  /** Server's name of the base model; null: its only one. */
  readonly baseModel: string | null;
  readonly profile: TinkerProfile;
  /** Holds state that must survive a crash; created if missing. */
  readonly stateDirectory: string;
  readonly operationTimeoutMs: number;
  /** Lines for the operator; never a key. */
  readonly log: (line: string) => void;
  /** Default: the system clock. */
  readonly clock?: Clock;
}

export type LearnerParts = Omit<TinkerLearnerParts, 'server'> & {
  /** Scores of the base model here; null: no reference. */
  readonly base: FixedScores | null;
};

export class TinkerTrainer {
  readonly facts: ServerFacts;
  readonly #options: TinkerTrainerOptions;
  readonly #journal: ModelJournal;

  /** Unloads models left by an earlier run. @throws {TrainerError} in one line with the remedy: see `contactServer` */
  static async open(options: TinkerTrainerOptions): Promise<TinkerTrainer> {
    const facts = await contactServer({ ...options, clock: options.clock ?? SYSTEM_CLOCK });
    const { url } = facts.http;
    const journal = new ModelJournal(join(options.stateDirectory, 'tinker-models.jsonl'));
    for (const model of journal.openModels().filter((one) => one.url === url)) {
      await unloadModel(facts, model.modelId);
      journal.closed(model);
    }
    for (const note of facts.profile.notes) options.log(`${facts.profile.name}: ${note}`);
    return new TinkerTrainer(facts, options, journal);
  }

  private constructor(facts: ServerFacts, options: TinkerTrainerOptions, journal: ModelJournal) {
    this.facts = facts;
    this.#options = options;
    this.#journal = journal;
  }

  /** A learner with its own adapter. The first of a shape tests the server. @throws {TrainerError} as `proveServer` */
  async learner(lora: LoraConfig, { base, ...parts }: LearnerParts): Promise<LearnerSession> {
    const { operationTimeoutMs, log } = this.#options;
    const server = { facts: this.facts, journal: this.#journal, operationTimeoutMs, log };
    const checkAdapter = (files: PeftFiles): void => tryIntake(files, lora, parts.intake);
    const { recipe, clipping, initialScale } = await this.#proof(lora, {
      base,
      prove: () => proveServer({ server, lora, base, checkAdapter }),
    });
    return new TinkerLearner(lora, { ...parts, server: { ...server, recipe, clipping, initialScale } });
  }

  close(): void {
    this.#journal.close();
  }

  async #proof(
    lora: LoraConfig,
    { base, prove }: { base: FixedScores | null; prove: () => Promise<Proof> },
  ): Promise<Proof> {
    const { stateDirectory, log } = this.#options;
    const { http, baseModel, profile, wire } = this.facts;
    const { rank, alpha, targets } = lora;
    const key = JSON.stringify([http.url, baseModel, profile.name, wire, rank, alpha, targets, base && digestOf(base)]);
    const path = join(
      stateDirectory,
      `tinker-proof-${createHash('sha256').update(key).digest('hex').slice(0, 16)}.json`,
    );
    const kept = readProof(path);
    if (kept !== null) return kept;
    const proof = await prove();
    makeFolders(stateDirectory);
    replaceFile(path, `${JSON.stringify(proof)}\n`);
    const compared =
      proof.meanDifference === null
        ? 'base model not compared'
        : `base model differs by ${proof.meanDifference.toExponential(1)} nats per token`;
    log(`the Tinker server uses gradient recipe ${proof.recipe} and clipping ${proof.clipping}; ${compared}`);
    const line = wordsOfScale(proof.initialScale);
    if (line !== null) log(line);
    return proof;
  }
}

/** Throws if the adapter's tensors do not fit the base model. */
function tryIntake(files: PeftFiles, lora: LoraConfig, intake: AdapterIntake): void {
  const outputDirectory = mkdtempSync(join(tmpdir(), 'trainyard-trial-'));
  try {
    intake({ files, lora, metrics: {}, outputDirectory });
  } finally {
    rmSync(outputDirectory, { recursive: true });
  }
}

function wordsOfScale({ factor, isMatched }: InitialScale): string | null {
  if (factor === 1) return null;
  const drawn = `the Tinker server initialises adapters ${(1 / factor).toPrecision(3)} times as large as this service`;
  return isMatched
    ? `${drawn}; a step of weight decay corrects the scale of new models`
    : `warning: ${drawn}; multiply learning rates by ${factor.toPrecision(3)} for the same effect`;
}

/** Null also for a proof of an earlier release, which lacks the initial scale. */
function readProof(path: string): Proof | null {
  try {
    const proof = JSON.parse(readFileSync(path, 'utf8')) as Partial<Proof>;
    return proof.initialScale === undefined ? null : (proof as Proof);
  } catch {
    return null;
  }
}

function digestOf(scores: FixedScores): string {
  return createHash('sha256').update(JSON.stringify(scores)).digest('hex');
}
