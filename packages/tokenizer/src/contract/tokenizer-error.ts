export type TokenizerErrorCode =
  | 'tokenizer.no_template'
  | 'tokenizer.template_failed'
  /** The template dropped the content of the final message, which was to be continued. */
  | 'tokenizer.final_message_lost'
  | 'tokenizer.unsupported_content'
  | 'tokenizer.text_too_long'
  | 'tokenizer.unknown_vocabulary'
  | 'tokenizer.history_malformed'
  | 'tokenizer.tools_malformed';

/** A failure caused by the text, the template or the vocabulary, which the user can fix. */
export class TokenizerError extends Error {
  override readonly name = 'TokenizerError';
  readonly code: TokenizerErrorCode;
  constructor(code: TokenizerErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
