/** Bytes that may be held at a time, given out in the order of asking. */
export class ByteBudget {
  #free: number;
  readonly #waiting: { bytes: number; grant: () => void }[] = [];

  constructor(totalBytes: number) {
    this.#free = totalBytes;
  }

  /** Resolves when the bytes are free; the result gives them back, once. More than the total is never free. */
  async take(bytes: number): Promise<() => void> {
    if (this.#waiting.length > 0 || bytes > this.#free) {
      const turn = Promise.withResolvers<void>();
      this.#waiting.push({ bytes, grant: turn.resolve });
      await turn.promise;
    } else {
      this.#free -= bytes;
    }
    let isTaken = true;
    return () => {
      if (!isTaken) return;
      isTaken = false;
      this.#free += bytes;
      this.#grantNext();
    };
  }

  #grantNext(): void {
    for (let next = this.#waiting[0]; next !== undefined && next.bytes <= this.#free; next = this.#waiting[0]) {
      this.#free -= next.bytes;
      this.#waiting.shift();
      next.grant();
    }
  }
}
