import type { MemberFacts, MemberRole, Store } from '@trainyard/store';

import { SERVICE_VERSION } from '../../seams/contract/service-version.ts';

/** Validity of a heartbeat, and interval of heartbeats: two in a row may be lost. */
const LEASE_MS = 30_000;
const HEARTBEAT_MS = 8_000;

export interface MembershipOptions {
  readonly store: Pick<Store, 'members'>;
  readonly role: MemberRole;
  /** address for others; null: none */
  readonly url: string | null;
  /** read at each heartbeat */
  readonly facts: () => MemberFacts;
  readonly log: (line: string) => void;
  /** default 8 s */
  readonly heartbeatMs?: number;
}

/**
 * Registration of this process among those that share a database, in one of its roles, renewed while it runs.
 * While the database is not writable, others may consider it dead; it is back with the first successful
 * heartbeat.
 */
export class Membership {
  readonly #options: MembershipOptions;
  #timer: NodeJS.Timeout | null = null;
  #isFailing = false;
  /** Sequential: an older heartbeat must not undo a newer one. */
  #last: Promise<void> = Promise.resolve();

  constructor(options: MembershipOptions) {
    this.#options = options;
  }

  /** Registers. @throws {StoreError} */
  async open(): Promise<void> {
    await this.#register();
    this.#timer = setInterval(() => void this.report(), this.#options.heartbeatMs ?? HEARTBEAT_MS).unref();
  }

  /**
   * Publishes the current state without waiting for the next heartbeat; does nothing unless open. Settles
   * after the try.
   */
  report(): Promise<void> {
    this.#last = this.#last.then(() => this.#renew());
    return this.#last;
  }

  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    await this.#last;
    const { store, role, log } = this.#options;
    try {
      await store.members.remove(role);
    } catch (error) {
      log(`other processes notice the end of this ${role} when its lease expires: ${(error as Error).message}`);
    }
  }

  async #renew(): Promise<void> {
    if (this.#timer === null) return;
    const { store, role, facts, log } = this.#options;
    try {
      if (!(await store.members.renew(role, facts(), LEASE_MS))) await this.#register();
      if (this.#isFailing) log(`this ${role} is registered again`);
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) log(`this ${role} cannot renew its lease: ${(error as Error).message}`);
      this.#isFailing = true;
    }
  }

  async #register(): Promise<void> {
    const { store, role, url, facts } = this.#options;
    await store.members.register({ role, url, version: SERVICE_VERSION, ...facts() }, LEASE_MS);
  }
}
