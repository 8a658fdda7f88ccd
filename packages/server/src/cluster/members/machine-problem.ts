/** Trouble of the process's machine, for other processes; null: none. */
export interface MachineProblem {
  readonly problem: string | null;
}
