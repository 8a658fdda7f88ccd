import { pacedDigest } from '../../seams/integrity/paced-digest.ts';

/**
 * SHA-256 of model files, each read once as a whole, in the background: a file of 100 GB takes minutes.
 * @param log receives a line for an unreadable file, whose digest stays unknown
 */
export class ModelDigests {
  readonly #digests = new Map<string, string | null>();
  readonly #log: (line: string) => void;
  readonly #end = new AbortController();
  #reading: Promise<void> = Promise.resolve();

  constructor(log: (line: string) => void) {
    this.#log = log;
  }

  /**
   * Hexadecimal; null until known. The first call starts the reading.
   * @param onKnown called once, for the first call of a path
   */
  of(path: string, onKnown: () => void): string | null {
    const known = this.#digests.get(path);
    if (known !== undefined) return known;
    this.#digests.set(path, null);
    this.#reading = this.#reading.then(() => this.#read(path, onKnown));
    return null;
  }

  async close(): Promise<void> {
    this.#end.abort();
    await this.#reading;
  }

  async #read(path: string, onKnown: () => void): Promise<void> {
    const { signal } = this.#end;
    try {
      this.#digests.set(path, await pacedDigest(path, signal));
      onKnown();
    } catch (error) {
      if (!signal.aborted) this.#log(`cannot compute the digest of ${path}: ${(error as Error).message}`);
    }
  }
}
