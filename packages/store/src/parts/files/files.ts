/** Keys of blobs and directories that rows name or will name. */
export interface Files {
  /**
   * Announces that a file of this key (blob or directory) is about to be written and that a row will name it;
   * until then other processes do not treat it as an orphan. Expires after a day, unless its process runs a
   * job.
   */
  announce(key: string): Promise<void>;
  /** Announced keys whose row is still to come, or came within the last day. */
  listAnnounced(): Promise<string[]>;
  /**
   * All keys that this database announced or named and whose files were not seen to be gone, with the time
   * since which they are orphans.
   */
  listKnown(): Promise<KnownKey[]>;
  /** Makes every key named by a row a known key. */
  learnNamed(): Promise<void>;
  /** Records exactly these keys as orphans. Those recorded before keep their time. */
  setOrphans(keys: readonly string[]): Promise<void>;
  /** Forgets known keys whose files are gone. */
  forget(keys: readonly string[]): Promise<void>;
  /** Every blob and artifact key that a row names; any other blob is garbage unless it is announced. */
  listReferenced(): Promise<{ directoryKeys: string[]; blobKeys: string[] }>;
  /**
   * True if a row names this blob or artifact key. Decides about a file whose row may or may not have been
   * written.
   */
  isNamed(key: string): Promise<boolean>;
  /** Name of the blobs that belong to this database; null before `claimBlobs`. */
  blobsId(): Promise<string | null>;
  /**
   * Permanently names the blobs that belong to this database. @returns their name: another one if a different
   * process was first
   */
  claimBlobs(id: string): Promise<string>;
}

/** A key that this database announced or named. */
export interface KnownKey {
  readonly key: string;
  /** Milliseconds since the epoch; null if a row names it, or will. */
  readonly orphanedAt: number | null;
}
