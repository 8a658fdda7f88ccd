import type { Sequence } from './sequence.ts';
import type { TenantShare } from './tenant-share.ts';

/** The fixed cost of a step, expressed in tokens: the weights are read once however many there are. */
const STEP_COST_TOKENS = 8;
/** How much less service than the one that had least a tenant can come back with, tokens. */
const MAX_CREDIT_TOKENS = 64;
/** How far a tenant that waits for its first token may run ahead of the others, tokens: prompts up to this are computed in successive steps. */
const MAX_LEAD_TOKENS = 2048;

/**
 * Whose turn the next step is. A batch has as many adapters as the runner computes with at once, often one: the tenant that had the least service chooses
 * first, and of its own the one that waited longest; everybody else with these adapters rides along.
 *
 * This is start-time fair queueing over tenants (Goyal, Vin and Cheng, 1996). Service is counted in tokens and a step's fixed cost. Who was idle does not save
 * up what it missed. A tenant none of whose sequences has a token yet goes before those that decode, until it is ahead of them by a bound:
 * so the first token of a newcomer comes at once under any load of others, and nobody can live on being new.
 */
export class Turns {
  readonly #adaptersPerBatch: number;
  /** Step in which each adapter last had its turn. */
  readonly #lastTurns = new Map<string | null, number>();
  #turn = 0;
  /** Service at which the last turn began. */
  #clock = 0;

  constructor(adaptersPerBatch: number) {
    this.#adaptersPerBatch = adaptersPerBatch;
  }

  /** The virtual time at which a new tenant starts. */
  get startingTime(): number {
    return this.#clock - MAX_CREDIT_TOKENS;
  }

  /** True when nothing is lost by forgetting the tenant. */
  isForgotten(tenant: TenantShare): boolean {
    return tenant.virtualTime <= this.startingTime;
  }

  /** The runnable sequences of the adapters whose turn it is, tenants that had less service first; null when there are none. */
  next(running: ReadonlySet<TenantShare>): Sequence[] | null {
    const tenants = [...running].filter(({ hasRunnable }) => hasRunnable);
    for (const tenant of tenants) tenant.virtualTime = Math.max(tenant.virtualTime, this.startingTime);
    const order = new Map(tenants.map((tenant) => [tenant, tenant.virtualTime - leadOf(tenant)]));
    tenants.sort((a, b) => order.get(a)! - order.get(b)!);
    const [chooser] = tenants;
    if (chooser === undefined) return null;
    this.#clock = Math.max(this.#clock, chooser.virtualTime);
    const chosen = this.#choose(tenants);
    this.#forgetIdleAdapters(running);
    this.#turn++;
    for (const digest of chosen) this.#lastTurns.set(digest, this.#turn);
    return tenants.flatMap((tenant) =>
      tenant.running.filter(({ isRunnable, owner }) => isRunnable && chosen.has(owner.adapterDigest)),
    );
  }

  /** Books what a step computes. @param shares tokens by tenant */
  charge(shares: ReadonlyMap<TenantShare, number>): void {
    let total = 0;
    for (const count of shares.values()) total += count;
    for (const [tenant, count] of shares) tenant.virtualTime += count + (STEP_COST_TOKENS * count) / total;
  }

  /** As many adapters as a batch may have, those of the tenants in their order. */
  #choose(tenants: readonly TenantShare[]): Set<string | null> {
    const chosen = new Set<string | null>();
    for (const tenant of tenants) {
      while (chosen.size < this.#adaptersPerBatch) {
        const digest = this.#longestWaiting(tenant, chosen);
        if (digest === undefined) break;
        chosen.add(digest);
      }
    }
    return chosen;
  }

  /** `undefined` when all of the tenant's are among those chosen. */
  #longestWaiting({ running }: TenantShare, chosen: ReadonlySet<string | null>): string | null | undefined {
    let next: string | null | undefined;
    for (const { isRunnable, owner } of running) {
      if (!isRunnable || chosen.has(owner.adapterDigest)) continue;
      if (next === undefined || this.#lastTurn(owner.adapterDigest) < this.#lastTurn(next)) next = owner.adapterDigest;
    }
    return next;
  }

  #lastTurn(digest: string | null): number {
    return this.#lastTurns.get(digest) ?? 0;
  }

  /** Adapters come and go for as long as the service runs; those without work need no memory of their turns. */
  #forgetIdleAdapters(running: ReadonlySet<TenantShare>): void {
    const inUse = new Set<string | null>();
    for (const tenant of running) for (const { owner } of tenant.running) inUse.add(owner.adapterDigest);
    if (this.#lastTurns.size <= 2 * inUse.size + 16) return;
    for (const digest of this.#lastTurns.keys()) if (!inUse.has(digest)) this.#lastTurns.delete(digest);
  }
}

function leadOf({ running }: TenantShare): number {
  return running.every(({ numSampled }) => numSampled === 0) ? MAX_LEAD_TOKENS : 0;
}
