/** Reason why a model of a hub is not here. The messages have the next step, and no path of this machine. */
export type HubErrorCode =
  | 'hub.not_found'
  | 'hub.access_denied'
  | 'hub.model_unusable'
  | 'hub.unreachable'
  | 'hub.answer_invalid'
  | 'hub.disk_full';

export class HubError extends Error {
  override readonly name = 'HubError';
  readonly code: HubErrorCode;

  constructor(code: HubErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
