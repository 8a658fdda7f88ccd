export type ConstraintErrorCode =
  | 'constraint.invalid'
  | 'constraint.unsupported'
  | 'constraint.too_large'
  | 'constraint.unsatisfiable'
  | 'constraint.timeout'
  /** Failed in the middle of a run, where compiling had succeeded. */
  | 'constraint.exhausted';

/** An error that the sender of the constraint can act on. The message quotes that constraint at most, never another one. */
export class ConstraintError extends Error {
  override readonly name = 'ConstraintError';
  readonly code: ConstraintErrorCode;
  constructor(code: ConstraintErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
