export type ServerErrorCode =
  | 'server.host_unavailable'
  | 'server.host_failed_to_start'
  | 'server.config_invalid'
  | 'server.port_in_use'
  | 'server.data_directory_unusable'
  | 'server.model_missing'
  | 'server.model_damaged';

/** A failure of the service itself, with a message for its operator. */
export class ServerError extends Error {
  override readonly name = 'ServerError';
  readonly code: ServerErrorCode;

  constructor(code: ServerErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
