/** Live processes of a service and their roles, each under a lease. */
export interface Members {
  /**
   * Registers this process for a role until the lease ends. One row per role of a process: it replaces that
   * of an earlier run. Wakes watchers of the feed.
   */
  register(member: NewMember, leaseMs: number): Promise<void>;
  /**
   * Heartbeat of a member of this process: extends its lease to `leaseMs` from now, on the clock of the
   * store.
   * @returns false if it is no longer registered: its lease ended, and the row was removed
   */
  renew(role: MemberRole, facts: MemberFacts, leaseMs: number): Promise<boolean>;
  /** Members of all processes whose lease has not ended, by role and id. */
  list(): Promise<Member[]>;
  /** Removes a member of this process at its orderly end. */
  remove(role: MemberRole): Promise<void>;
}

/** Work that one part of a service does for the others. */
export type MemberRole = 'api' | 'engine' | 'trainer';

export interface TrainerLimits {
  /** largest rank of its adapters; null if unknown */
  readonly maxRank: number | null;
  /** the only alpha; null: any */
  readonly alpha: number | null;
  /** sets of layers that its adapters can cover; null: any */
  readonly targetSets: readonly (readonly string[])[] | null;
  /** true if a loss may have a gradient of entropies */
  readonly entropyGradients: boolean;
}

/** A base model of a member, as far as it knows it. */
export interface MemberModel {
  readonly id: string;
  /** SHA-256 of the file, hexadecimal; null until it is read whole, or if this member has no file */
  readonly fileDigest: string | null;
  /** upper bound of token ids, exclusive; null if no vocabulary was read */
  readonly vocabSize: number | null;
  /** set for an external trainer; absent: it trains everything this service supports */
  readonly trainerLimits?: TrainerLimits;
}

/** Facts of a member that may change during its life. */
export interface MemberFacts {
  readonly baseModels: readonly MemberModel[];
  /** concurrent work: requests of an engine, jobs of a trainer; null if unlimited */
  readonly capacity: number | null;
  /** digests of the adapters that it holds ready */
  readonly adapterDigests: readonly string[];
  /** finishes its current work and accepts nothing new */
  readonly isDraining: boolean;
  /**
   * problem of its machine, such as a full disk, as of its last heartbeat; null if none, or if its release
   * does not report it
   */
  readonly machineTrouble: string | null;
}

/** A part of a service whose lease has not ended. */
export interface Member extends MemberFacts {
  /** as `Store.instanceId` of its process */
  readonly id: string;
  readonly role: MemberRole;
  /** address for the others, `http://10.0.0.7:8421`; null if it opens no port to them */
  readonly url: string | null;
  readonly version: string;
  /** milliseconds since the epoch, on the clock of the store */
  readonly startedAt: number;
  readonly leaseExpiresAt: number;
}

export type NewMember = Omit<Member, 'id' | 'startedAt' | 'leaseExpiresAt'>;
