import type { Submission } from './preparation.ts';

/** Unprepared requests by tenant: tenants take turns, and each tenant's requests are in order of arrival. */
export class SubmissionQueue {
  /** Requests by tenant in order of turns; none is empty. */
  readonly #byTenant = new Map<string, Map<string, Submission>>();
  readonly #tenantOf = new Map<string, string>();

  get size(): number {
    return this.#tenantOf.size;
  }

  get(requestId: string): Submission | undefined {
    return this.#byTenant.get(this.#tenantOf.get(requestId) ?? '')?.get(requestId);
  }

  add(submission: Submission): void {
    const { requestId, tenant } = submission.request;
    this.#tenantOf.set(requestId, tenant);
    const own = this.#byTenant.get(tenant);
    if (own === undefined) this.#byTenant.set(tenant, new Map([[requestId, submission]]));
    else own.set(requestId, submission);
  }

  /** @returns the request, if it was queued */
  remove(requestId: string): Submission | undefined {
    const submission = this.get(requestId);
    if (submission === undefined) return undefined;
    const { tenant } = submission.request;
    const own = this.#byTenant.get(tenant)!;
    own.delete(requestId);
    this.#tenantOf.delete(requestId);
    if (own.size === 0) this.#byTenant.delete(tenant);
    return submission;
  }

  /** Takes the next request of the next tenant that may continue; the tenant then waits for the others. */
  take(mayGoOn: (tenant: string) => boolean): Submission | undefined {
    for (const [tenant, own] of this.#byTenant) {
      if (!mayGoOn(tenant)) continue;
      const [submission] = own.values();
      this.remove(submission!.request.requestId);
      if (own.size > 0) {
        this.#byTenant.delete(tenant);
        this.#byTenant.set(tenant, own);
      }
      return submission;
    }
    return undefined;
  }

  has(mayGoOn: (tenant: string) => boolean): boolean {
    return this.#byTenant.keys().some(mayGoOn);
  }

  values(): Submission[] {
    return [...this.#byTenant.values()].flatMap((own) => [...own.values()]);
  }
}
