import type { Sequence } from './sequence.ts';
import type { TenantShare } from './tenant-share.ts';

/** Fixed cost of a step: the weights are read once for any number of tokens. */
const STEP_COST_TOKENS = 8;
/** Limit of a returning tenant's credit against the one with the least service. */
const MAX_CREDIT_TOKENS = 64;
/**
 * Limit of the lead of a tenant that waits for its first token: prompts up to this are computed in successive
 * steps.
 */
const MAX_LEAD_TOKENS = 2048;

/**
 * Chooses the tenants of the next step. The tenant with the least service chooses first, and takes its longest
 * waiting adapter; all sequences with the chosen adapters join.
 *
 * This is start-time fair queueing over tenants (Goyal, Vin and Cheng, 1996). Service is counted in tokens plus
 * a step's fixed cost. Idle tenants save no credit. A tenant without any token yet has a bounded lead: so a
 * newcomer's first token comes at once under any load, and being new gives no lasting advantage.
 */
export class Turns {
  readonly #adaptersPerBatch: number;
  /** Step of each adapter's last turn. */
  readonly #lastTurns = new Map<string | null, number>();
  #turn = 0;
  /** Service at the start of the last turn. */
  #clock = 0;

  constructor(adaptersPerBatch: number) {
    this.#adaptersPerBatch = adaptersPerBatch;
  }

  /** Virtual time of a new tenant. */
  get startingTime(): number {
    return this.#clock - MAX_CREDIT_TOKENS;
  }

  isForgotten(tenant: TenantShare): boolean {
    return tenant.virtualTime <= this.startingTime;
  }

  /** Runnable sequences of the chosen adapters, tenants with less service first; null if none. */
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

  charge(shares: ReadonlyMap<TenantShare, number>): void {
    let total = 0;
    for (const count of shares.values()) total += count;
    for (const [tenant, count] of shares) tenant.virtualTime += count + (STEP_COST_TOKENS * count) / total;
  }

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

  /** `undefined` if all of the tenant's adapters are chosen. */
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

  /** New adapters keep coming while the service runs. */
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
