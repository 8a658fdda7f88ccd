/** Trouble of the machine that a process runs on, for the others to read; null: none. */
export interface MachineTrouble {
  readonly trouble: string | null;
}
