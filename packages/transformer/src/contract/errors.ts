/** The message names the unsupported part and the supported ones. */
export class UnsupportedModelError extends Error {
  override readonly name = 'UnsupportedModelError';
}
