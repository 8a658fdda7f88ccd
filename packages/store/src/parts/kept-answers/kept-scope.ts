/** Owner of kept answers and conversations: they are invisible to other entities and projects. */
export interface KeptScope {
  readonly entityId: string;
  /** Project named by requests; empty if they name none. */
  readonly project: string;
}

/** Called with the number of bytes before texts are read and unpacked. An error that it throws ends the call. */
export type BeforeUnpacking = (numBytes: number) => Promise<void>;
