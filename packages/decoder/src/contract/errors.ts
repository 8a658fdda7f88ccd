/** No room for the keys and values of a batch. */
export class KvFullError extends Error {
  override readonly name = 'KvFullError';
}
