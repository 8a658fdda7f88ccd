import {
  type ComputeGate,
  type LearnerSession,
  type OpenedTemplate,
  openTemplate,
  openTrainer,
  type Trainer,
  type TrainingParts,
  type VersionFolders,
} from '@trainyard/trainer';
import { intakeFor, TINKER_PROFILES, TinkerTrainer } from '@trainyard/tinker';

import type { RemoteTrainerOptions, TrainerHostOptions, TrainingJobRequest } from '../process/messages.ts';

export interface JobLearner extends Pick<TrainingParts, 'learner' | 'template'> {
  end(): Promise<void>;
}

/** Learners of jobs, used one after the other. */
export interface JobLearners {
  open(job: TrainingJobRequest, parts: { versions: VersionFolders; remoteKey: string | null }): Promise<JobLearner>;
  /** Frees memory after a time without training. */
  rest(): void;
}

/** Learners of this process: base weights are loaded for the first job and kept for the next. */
export class EmbeddedLearners implements JobLearners {
  readonly #options: TrainerHostOptions;
  readonly #gate: ComputeGate;
  #trainer: Trainer | null = null;

  constructor(options: TrainerHostOptions, gate: ComputeGate) {
    this.#options = options;
    this.#gate = gate;
  }

  async open({ modelPath, lora }: TrainingJobRequest, { versions }: { versions: VersionFolders }): Promise<JobLearner> {
    if (this.#trainer?.modelPath !== modelPath) this.rest();
    this.#trainer ??= await openTrainer({ ...this.#options, modelPath });
    const { template } = this.#trainer;
    const learner = await this.#trainer.learner(lora, { versions, gate: this.#gate });
    // The next learner replaces it.
    return { learner, template, end: async () => {} };
  }

  rest(): void {
    this.#trainer?.close();
    this.#trainer = null;
  }
}

/** Learners on a server of the Tinker protocol: only the vocabulary and template of the base model are here. */
export class RemoteLearners implements JobLearners {
  readonly #options: RemoteTrainerOptions & Pick<TrainerHostOptions, 'allowsControlTokens'>;
  readonly #log: (line: string) => void;
  #opened: OpenedTemplate | null = null;
  #server: TinkerTrainer | null = null;

  constructor(
    options: RemoteTrainerOptions & Pick<TrainerHostOptions, 'allowsControlTokens'>,
    log: (line: string) => void,
  ) {
    this.#options = options;
    this.#log = log;
  }

  async open(
    { modelPath, lora, baseScores = null }: TrainingJobRequest,
    { versions, remoteKey }: { versions: VersionFolders; remoteKey: string | null },
  ): Promise<JobLearner> {
    if (this.#opened?.modelPath !== modelPath) {
      this.#opened?.close();
      this.#opened = openTemplate({ ...this.#options, modelPath });
    }
    const { template, architecture } = this.#opened;
    this.#server ??= await this.#connect(remoteKey);
    const parts = { model: architecture, versions, intake: intakeFor(modelPath), base: baseScores };
    const learner: LearnerSession = await this.#server.learner(lora, parts);
    return { learner, template, end: async () => await learner.close() };
  }

  rest(): void {
    this.#opened?.close();
    this.#opened = null;
    this.#server?.close();
    this.#server = null;
  }

  async #connect(apiKey: string | null): Promise<TinkerTrainer> {
    const { url, profile, baseModel, timeoutMs, stateDirectory } = this.#options;
    return await TinkerTrainer.open({
      url,
      apiKey,
      baseModel,
      profile: TINKER_PROFILES[profile],
      stateDirectory,
      operationTimeoutMs: timeoutMs,
      log: this.#log,
    });
  }
}
