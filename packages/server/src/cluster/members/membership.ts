import type { MemberFacts, MemberRole, Store } from '@trainyard/store';

import { SERVICE_VERSION } from '../../seams/contract/service-version.ts';

/** How long others count on a member that is silent, and how often it speaks: two heartbeats in a row may be lost. */
const LEASE_MS = 30_000;
const HEARTBEAT_MS = 8_000;

export interface MembershipOptions {
  readonly store: Pick<Store, 'registerMember' | 'renewMember' | 'removeMember'>;
  readonly role: MemberRole;
  /** where others reach it; null: nowhere */
  readonly url: string | null;
  /** as they are when the next heartbeat asks */
  readonly facts: () => MemberFacts;
  readonly log: (line: string) => void;
  /** default 8 s */
  readonly heartbeatMs?: number;
}

/**
 * This process among those that share a database, in one of its roles: registered, and renewed for as long as it runs. While the database cannot be
 * written, the others may take it for dead; it is there again with the first heartbeat that comes through.
 */
export class Membership {
  readonly #options: MembershipOptions;
  #timer: NodeJS.Timeout | null = null;
  #isFailing = false;
  /** One after the other: an older heartbeat must not undo a newer one. */
  #last: Promise<void> = Promise.resolve();

  constructor(options: MembershipOptions) {
    this.#options = options;
  }

  /** Registers. @throws {StoreError} */
  async open(): Promise<void> {
    await this.#register();
    this.#timer = setInterval(() => void this.tell(), this.#options.heartbeatMs ?? HEARTBEAT_MS).unref();
  }

  /** Tells the others what is true now, without waiting for the next heartbeat; nothing unless it is open. Settles when it was tried. */
  tell(): Promise<void> {
    this.#last = this.#last.then(() => this.#renew());
    return this.#last;
  }

  /** The orderly end: nobody counts on this member any more. */
  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    await this.#last;
    const { store, role, log } = this.#options;
    try {
      await store.removeMember(role);
    } catch (error) {
      log(`other processes notice the end of this ${role} when its lease expires: ${(error as Error).message}`);
    }
  }

  async #renew(): Promise<void> {
    if (this.#timer === null) return;
    const { store, role, facts, log } = this.#options;
    try {
      if (!(await store.renewMember(role, facts(), LEASE_MS))) await this.#register();
      if (this.#isFailing) log(`this ${role} is registered again`);
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) log(`this ${role} cannot renew its lease: ${(error as Error).message}`);
      this.#isFailing = true;
    }
  }

  async #register(): Promise<void> {
    const { store, role, url, facts } = this.#options;
    await store.registerMember({ role, url, version: SERVICE_VERSION, ...facts() }, LEASE_MS);
  }
}
