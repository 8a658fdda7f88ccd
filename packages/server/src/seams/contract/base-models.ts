import { briefly } from '@trainyard/protocol';
import type { Model } from '@trainyard/store';

import { RequestError } from '../faults/request-error.ts';

export interface BaseModel {
  readonly id: string;
  /** Longest sequence, prompt and reply together, tokens. */
  readonly contextLength: number;
  readonly vocabSize: number;
  /** Why it cannot be trained; null or absent: it can, as far as is known. */
  readonly untrainable?: string | null;
  /** Largest rank of an adapter that it can be sampled with. Null or absent: any, as far as is known. */
  readonly maxLoraRank?: number | null;
}

/** The base models that are served: whoever asks what a name or a record stands on asks here. */
export class BaseModels {
  readonly #served: () => readonly BaseModel[];
  readonly #absence: (id: string | null) => RequestError | null;

  /**
   * @param served known once the service has started
   * @param absence why one is not there that may come, see `InferenceBackend.absence`; default: none may come
   */
  constructor(served: () => readonly BaseModel[], absence: (id: string | null) => RequestError | null = () => null) {
    this.#served = served;
    this.#absence = absence;
  }

  get all(): readonly BaseModel[] {
    return this.#served();
  }

  /** The one that is meant where none is named. @throws {RequestError} `server.unavailable` while none is there */
  get default(): BaseModel {
    const [first] = this.#served();
    if (first !== undefined) return first;
    throw this.#absence(null) ?? new Error('no base model is served');
  }

  /** @throws {RequestError} `server.unavailable` for one that is not there now, and may come */
  refuseAbsent(id: string): void {
    const absence = this.#absence(id);
    if (absence !== null) throw absence;
  }

  find(id: string): BaseModel | null {
    return this.#served().find((model) => model.id === id) ?? null;
  }

  /** @throws {RequestError} `request.unknown_model`, for the field `base_model`; `server.unavailable` while it is not there */
  named(id: string): BaseModel {
    const found = this.find(id);
    if (found !== null) return found;
    this.refuseAbsent(id);
    throw new RequestError(
      'request.unknown_model',
      `The base model \`${briefly(id)}\` is not served here; served: ${this.#ids()}`,
      { param: 'base_model' },
    );
  }

  /**
   * The base model of a trained model.
   *
   * @param field what named it; `name` as it was named
   * @throws {RequestError} `request.conflict` when that is not served: its adapters fit no other weights; `server.unavailable` while it is not there
   */
  under(model: Pick<Model, 'baseModel'>, { field, name }: { field: string; name?: string }): BaseModel {
    const found = this.find(model.baseModel);
    if (found !== null) return found;
    this.refuseAbsent(model.baseModel);
    const subject = name === undefined ? 'The model' : `The model \`${name}\``;
    throw new RequestError(
      'request.conflict',
      `${subject} is based on \`${model.baseModel}\`, which is not served here; served: ${this.#ids()}`,
      { param: field },
    );
  }

  #ids(): string {
    return this.#served()
      .map(({ id }) => id)
      .join(', ');
  }
}
