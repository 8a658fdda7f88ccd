/**
 * Prompts as they follow one another: the turns of a conversation, each longer than the one before, and the choices of a request, all behind the
 * same. One that goes on behind the one before it is kept in the same memory, so that a conversation takes what its last prompt takes.
 */
export class SharedPrompts {
  #last = new Int32Array();
  /** Begins with the last one; what is behind that is free. */
  #buffer = this.#last;

  /** How many ids the last prompt and this one begin with. */
  sharedLength(prompt: Int32Array): number {
    const most = Math.min(prompt.length, this.#last.length);
    let length = 0;
    while (length < most && prompt[length] === this.#last[length]) length += 1;
    return length;
  }

  /** @returns an equal prompt, not to be written to */
  keep(prompt: Int32Array): Int32Array {
    const numShared = this.sharedLength(prompt);
    return this.keepBehind(numShared, prompt.subarray(numShared));
  }

  /** @returns the prompt of so many ids of the last one, and the rest behind them; not to be written to */
  keepBehind(numShared: number, rest: Int32Array): Int32Array {
    const length = numShared + rest.length;
    const goesOn = numShared === this.#last.length;
    if (!goesOn || length > this.#buffer.length) {
      const buffer = new Int32Array(goesOn ? Math.max(length, 2 * this.#buffer.length) : length);
      buffer.set(this.#last.subarray(0, numShared));
      this.#buffer = buffer;
    }
    this.#buffer.set(rest, numShared);
    this.#last = this.#buffer.subarray(0, length);
    return this.#last;
  }
}
