/** The work that one part of a service does for the others. */
export type MemberRole = 'api' | 'engine' | 'trainer';

/** The adapters and settings that a trainer is limited to. */
export interface TrainerLimits {
  /** largest rank of its adapters; null where it is not known */
  readonly maxRank: number | null;
  /** the only alpha; null: any */
  readonly alpha: number | null;
  /** sets of layers that its adapters can be on; null: any */
  readonly targetSets: readonly (readonly string[])[] | null;
  /** whether a loss may have a gradient of entropies */
  readonly entropyGradients: boolean;
}

/** A base model that a member has, as far as it knows it. */
export interface MemberModel {
  readonly id: string;
  /** SHA-256 of the file, hexadecimal; null until it was read whole, and where it is none of this member's */
  readonly fileDigest: string | null;
  /** token ids, each below it; null where no vocabulary was read */
  readonly vocabSize: number | null;
  /** of a trainer elsewhere; absent: it trains whatever this service does */
  readonly trainerLimits?: TrainerLimits;
}

/** Facts of a member that may change while it is there. */
export interface MemberFacts {
  readonly baseModels: readonly MemberModel[];
  /** things that it does at a time: requests of an engine, jobs of a trainer; null where nothing limits them */
  readonly capacity: number | null;
  /** adapters that it holds ready, by their digests */
  readonly adapterDigests: readonly string[];
  /** it ends what it has in hand, and takes nothing new */
  readonly isDraining: boolean;
  /** trouble of the machine that it runs on, such as a full disk, as of its last heartbeat; null: none, or a release that does not say */
  readonly machineTrouble: string | null;
}

/** One part of a service that is alive, or was moments ago: its lease has not ended. */
export interface Member extends MemberFacts {
  /** as `Store.instanceId` of its process */
  readonly id: string;
  readonly role: MemberRole;
  /** where others reach it, `http://10.0.0.7:8421`; null: nowhere, it opens no port to them */
  readonly url: string | null;
  /** of the release */
  readonly version: string;
  /** milliseconds since the epoch, by the clock of the store */
  readonly startedAt: number;
  readonly leaseExpiresAt: number;
}

export type NewMember = Omit<Member, 'id' | 'startedAt' | 'leaseExpiresAt'>;
