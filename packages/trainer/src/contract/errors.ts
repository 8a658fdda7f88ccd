/** A retry can succeed: never; at once, from the last saved state; or once the machine has the missing resource. */
export type Retry = 'never' | 'resume' | 'wait';

/** Codes of all failures in logs, metrics and HTTP responses. */
const RETRY_BY_CODE = {
  'trainer.architecture_unsupported': 'never',
  'trainer.config_invalid': 'never',
  'trainer.token_out_of_range': 'never',
  'trainer.logprob_invalid': 'never',
  'trainer.reward_not_finite': 'never',
  'trainer.render_failed': 'never',
  'trainer.non_finite': 'never',
  'trainer.checkpoint_unreadable': 'never',
  'trainer.checkpoint_damaged': 'never',
  'trainer.disk_full': 'wait',
  'trainer.memory_full': 'wait',
  'trainer.export_differs': 'never',
  'trainer.adapter_invalid': 'never',
  'trainer.cancelled': 'never',
  'trainer.host_lost': 'resume',
  'trainer.remote_unavailable': 'wait',
  'trainer.remote_refused': 'never',
  'trainer.remote_differs': 'never',
  'trainer.internal': 'never',
} as const satisfies Record<`trainer.${string}`, Retry>;

export type TrainerErrorCode = keyof typeof RETRY_BY_CODE;

/** A failure that the user can fix; a broken invariant is an `AssertionError`. */
export class TrainerError extends Error {
  override readonly name = 'TrainerError';
  readonly code: TrainerErrorCode;
  /** Wire field at fault. */
  readonly field: string | null;
  constructor(code: TrainerErrorCode, message: string, options: ErrorOptions & { field?: string } = {}) {
    super(message, options);
    this.code = code;
    this.field = options.field ?? null;
  }

  get retry(): Retry {
    return RETRY_BY_CODE[this.code];
  }
}
