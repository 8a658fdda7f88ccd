export type ConstraintErrorCode =
  | 'constraint.invalid'
  | 'constraint.unsupported'
  | 'constraint.too_large'
  | 'constraint.unsatisfiable'
  | 'constraint.timeout'
  /** Failed during a completion, after compiling had succeeded. */
  | 'constraint.exhausted';

/** An error that the constraint's sender can fix; the message quotes only that constraint. */
export class ConstraintError extends Error {
  override readonly name = 'ConstraintError';
  readonly code: ConstraintErrorCode;
  constructor(code: ConstraintErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
