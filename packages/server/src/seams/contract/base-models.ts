import { briefly } from '@trainyard/protocol';
import type { Model } from '@trainyard/store';
import type { LinearName } from '@trainyard/trainer';

import { RequestError } from '../faults/request-error.ts';

export interface BaseModel {
  readonly id: string;
  readonly contextLength: number;
  readonly vocabSize: number;
  /** Reason why it cannot be trained; null or absent: none known. */
  readonly untrainable?: string | null;
  /** Linear layers that can have adapters, by transformer block. Null or absent: unknown. */
  readonly linearsByLayer?: readonly (readonly LinearName[])[] | null;
  /** Largest adapter rank for sampling. Null or absent: no known limit. */
  readonly maxLoraRank?: number | null;
}

/** The served base models: the only lookup for the base model of a name or record. */
export class BaseModels {
  readonly #served: () => readonly BaseModel[];
  readonly #absence: (id: string | null) => RequestError | null;

  /**
   * @param served known after the start
   * @param absence reason why a model that may come is not there, see `InferenceBackend.absence` and
   * `HubBases.absence`; default: none may come
   */
  constructor(served: () => readonly BaseModel[], absence: (id: string | null) => RequestError | null = () => null) {
    this.#served = served;
    this.#absence = absence;
  }

  get all(): readonly BaseModel[] {
    return this.#served();
  }

  /** @throws {RequestError} `server.unavailable` while there is none */
  get default(): BaseModel {
    const [first] = this.#served();
    if (first !== undefined) return first;
    throw this.#absence(null) ?? new Error('no base model is served');
  }

  /** @throws {RequestError} `server.unavailable` for a model that is not there now but may come */
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
   * Base model of a trained model.
   * @param field request field with the name; `name` its value
   * @throws {RequestError} `request.conflict` if the base model is not served: its adapters fit no other
   * weights; `server.unavailable` while it is not there
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
