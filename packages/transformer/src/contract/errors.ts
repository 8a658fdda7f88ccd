/** A model file that the graphs cannot compute exactly: the message names what in it, and what is supported. */
export class UnsupportedModelError extends Error {
  override readonly name = 'UnsupportedModelError';
}
