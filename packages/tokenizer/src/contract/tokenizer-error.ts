export type TokenizerErrorCode =
  | 'tokenizer.no_template'
  | 'tokenizer.template_failed'
  /** The final message was to be continued, and the template left its content out. */
  | 'tokenizer.final_message_lost'
  | 'tokenizer.unsupported_content'
  | 'tokenizer.text_too_long'
  | 'tokenizer.unknown_vocabulary'
  | 'tokenizer.history_malformed'
  | 'tokenizer.tools_malformed';

/** A failure somebody can act on: the text, the template or the vocabulary is the cause, never this code. */
export class TokenizerError extends Error {
  override readonly name = 'TokenizerError';
  readonly code: TokenizerErrorCode;
  constructor(code: TokenizerErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
