export interface Finding {
  /** Name for programs; shared by findings of one kind. */
  readonly name: string;
  /** Description for people: the subject, and its state if there is no problem. */
  readonly subject: string;
  /** The fault and its remedy; null if there is none. */
  readonly problem: string | null;
}
