/** Keys and values of a batch have no room. */
export class KvFullError extends Error {
  override readonly name = 'KvFullError';
}
