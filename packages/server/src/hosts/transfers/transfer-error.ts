import type { HostFailure } from '../process/messages.ts';

export class TransferError extends Error {
  override readonly name = 'TransferError';
  /** a code of the trainer, or of a package it uses */
  readonly code: string;

  constructor(failure: HostFailure) {
    super(failure.message);
    this.code = failure.code;
  }
}
