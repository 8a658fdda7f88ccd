import type { Store } from '@trainyard/store';

import type { ResolvedModel } from '../../seams/contract/model-names.ts';

/** Time for which a step is kept after a request named it. */
const NAMED_MS = 24 * 3_600_000;
/** Time for which a version is kept after the last sign of a request in flight. */
const IN_FLIGHT_MS = 180_000;
const RENEWED_MS = 60_000;

interface Use {
  readonly modelId: string;
  readonly step: number;
  numRequests: number;
}

/**
 * Records the versions that requests of this process use in the database, so that no process removes their
 * checkpoints. A step that a request names is held for a day; the newest while requests for it run.
 */
export class VersionUse {
  readonly #store: Pick<Store, 'retention' | 'clock'>;
  readonly #log: (line: string) => void;
  readonly #uses = new Map<string, Use>();
  /** End of the hold of named versions, as last written by this process. */
  readonly #heldUntil = new Map<string, number>();
  #timer: NodeJS.Timeout | null = null;

  constructor(store: Pick<Store, 'retention' | 'clock'>, log: (line: string) => void) {
    this.#store = store;
    this.#log = log;
  }

  /**
   * Records that a request uses a version.
   * @param onEnd calls back at the end of the request
   */
  begin(model: ResolvedModel, isNamed: boolean, onEnd: (act: () => void) => void): void {
    if (model.kind !== 'checkpoint' || model.directoryKey === null) return;
    const { modelId, step } = model;
    const key = `${modelId} ${step}`;
    if (isNamed) this.#holdNamed(key, modelId, step);
    const use = this.#uses.get(key) ?? { modelId, step, numRequests: 0 };
    use.numRequests += 1;
    this.#uses.set(key, use);
    this.#timer ??= setInterval(() => this.#renew(), RENEWED_MS).unref();
    onEnd(() => {
      use.numRequests -= 1;
      if (use.numRequests === 0) this.#uses.delete(key);
      if (this.#uses.size > 0 || this.#timer === null) return;
      clearInterval(this.#timer);
      this.#timer = null;
    });
  }

  #holdNamed(key: string, modelId: string, step: number): void {
    const now = this.#store.clock.now();
    if ((this.#heldUntil.get(key) ?? 0) - now > NAMED_MS / 2) return;
    for (const [held, until] of this.#heldUntil) if (until <= now) this.#heldUntil.delete(held);
    this.#heldUntil.set(key, now + NAMED_MS);
    this.#hold(modelId, step, now + NAMED_MS);
  }

  #renew(): void {
    const until = this.#store.clock.now() + IN_FLIGHT_MS;
    for (const { modelId, step } of this.#uses.values()) this.#hold(modelId, step, until);
  }

  #hold(modelId: string, step: number, until: number): void {
    this.#store.retention.hold(modelId, step, until).catch((error: unknown) => {
      this.#heldUntil.delete(`${modelId} ${step}`);
      this.#log(`the use of step ${step} of the model ${modelId} was not recorded: ${String(error)}`);
    });
  }
}
