import type { MemberFacts, MemberModel } from '@trainyard/store';

import type { BaseModelPaths } from '../../seams/contract/base-model-path.ts';
import { Membership, type MembershipOptions } from './membership.ts';
import { ModelDigests } from './model-digests.ts';

export interface ModelMembershipOptions extends Omit<MembershipOptions, 'facts'> {
  readonly modelPaths: BaseModelPaths;
  /** base models, read at each heartbeat */
  readonly baseModels: () => readonly Omit<MemberModel, 'fileDigest'>[];
  /** other facts, read at each heartbeat */
  readonly facts: () => Omit<MemberFacts, 'baseModels'>;
}

/** A member with base models: it publishes the digests of their files once they are read. */
export class ModelMembership {
  readonly #digests: ModelDigests;
  readonly #membership: Membership;

  constructor({ modelPaths, baseModels, facts, ...options }: ModelMembershipOptions) {
    this.#digests = new ModelDigests(options.log);
    const digestOf = (id: string): string | null => {
      const path = modelPaths(id);
      return path === null ? null : this.#digests.of(path, () => void this.report());
    };
    this.#membership = new Membership({
      ...options,
      facts: () => ({
        ...facts(),
        baseModels: baseModels().map((model) => ({ ...model, fileDigest: digestOf(model.id) })),
      }),
    });
  }

  /** @throws {StoreError} */
  open(): Promise<void> {
    return this.#membership.open();
  }

  report(): Promise<void> {
    return this.#membership.report();
  }

  /** Ends the registration and the reading. */
  async close(): Promise<void> {
    await this.#digests.close();
    await this.#membership.close();
  }
}
