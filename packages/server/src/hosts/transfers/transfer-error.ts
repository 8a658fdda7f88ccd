import type { HostFailure } from '../process/messages.ts';

/** Why an export or an import did not end in a result. */
export class TransferError extends Error {
  override readonly name = 'TransferError';
  /** a trainer code, or one of the packages below it */
  readonly code: string;

  constructor(failure: HostFailure) {
    super(failure.message);
    this.code = failure.code;
  }
}
