/** One thing that was looked at. */
export interface Finding {
  /** For programs; of a kind, where there are several. */
  readonly name: string;
  /** For people: what it is, and how it is where it is well. */
  readonly subject: string;
  /** The fault and its remedy; null when all is well. */
  readonly problem: string | null;
}
