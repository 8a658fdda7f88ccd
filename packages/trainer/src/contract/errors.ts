/** Every way in which training can fail, as a code that logs, metrics and HTTP answers share. */
export type TrainerErrorCode =
  | 'trainer.architecture_unsupported'
  | 'trainer.config_invalid'
  | 'trainer.token_out_of_range'
  | 'trainer.logprob_invalid'
  | 'trainer.reward_not_finite'
  | 'trainer.render_failed'
  | 'trainer.non_finite'
  | 'trainer.checkpoint_unreadable'
  | 'trainer.disk_full'
  | 'trainer.export_differs'
  | 'trainer.adapter_invalid'
  | 'trainer.cancelled'
  | 'trainer.host_lost'
  | 'trainer.internal';

/** A failure somebody can act on. A broken invariant of our own code is an `AssertionError` instead. */
export class TrainerError extends Error {
  override readonly name = 'TrainerError';
  readonly code: TrainerErrorCode;
  constructor(code: TrainerErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
