/** Owner of kept answers and conversations: nothing is found from another entity or another project. */
export interface KeptScope {
  readonly entityId: string;
  /** As requests name it; empty if they name none. */
  readonly project: string;
}

/** Called before texts are unpacked, with their bytes. What it throws ends the call. */
export type BeforeUnpacking = (numBytes: number) => Promise<void>;
