import type { Model } from '@trainyard/store';

import { RequestError } from '../faults/request-error.ts';

export interface BaseModel {
  readonly id: string;
  /** Longest sequence, prompt and reply together, tokens. */
  readonly contextLength: number;
  readonly vocabSize: number;
}

/** The base models that are served: whoever asks what a name or a record stands on asks here. */
export class BaseModels {
  readonly #served: () => readonly BaseModel[];

  /** @param served at least one; known once the service has started */
  constructor(served: () => readonly BaseModel[]) {
    this.#served = served;
  }

  get all(): readonly BaseModel[] {
    return this.#served();
  }

  /** The one that is meant where none is named. */
  get default(): BaseModel {
    const [first] = this.#served();
    if (first === undefined) throw new Error('no base model is served');
    return first;
  }

  find(id: string): BaseModel | null {
    return this.#served().find((model) => model.id === id) ?? null;
  }

  /** @throws {RequestError} `request.unknown_model`, for the field `base_model` */
  named(id: string): BaseModel {
    const found = this.find(id);
    if (found !== null) return found;
    throw new RequestError(
      'request.unknown_model',
      `The base model \`${id}\` is not served here; known: ${this.#ids()}`,
      { param: 'base_model' },
    );
  }

  /**
   * The base model of a trained model.
   *
   * @param field what named it; `name` as it was named
   * @throws {RequestError} `request.conflict` when that is not served: its adapters fit no other weights
   */
  under(model: Pick<Model, 'baseModel'>, { field, name }: { field: string; name?: string }): BaseModel {
    const found = this.find(model.baseModel);
    if (found !== null) return found;
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
