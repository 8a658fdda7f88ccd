/** Trouble of the process's machine, for other processes; null: none. */
export interface MachineTrouble {
  readonly trouble: string | null;
}
