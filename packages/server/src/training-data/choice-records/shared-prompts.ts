/**
 * Consecutive prompts: turns of a conversation, each longer than the last, and choices of one request with
 * the same prompt. A prompt that extends its predecessor shares its memory, so a conversation needs the
 * memory of its last prompt.
 */
export class SharedPrompts {
  #last = new Int32Array();
  /** Starts with the last prompt; the rest is free. */
  #buffer = this.#last;

  /** Number of leading ids that the last prompt and this one share. */
  sharedLength(prompt: Int32Array): number {
    const most = Math.min(prompt.length, this.#last.length);
    let length = 0;
    while (length < most && prompt[length] === this.#last[length]) length += 1;
    return length;
  }

  /** @returns an equal prompt, read-only */
  keep(prompt: Int32Array): Int32Array {
    const numShared = this.sharedLength(prompt);
    return this.appendTo(numShared, prompt.subarray(numShared));
  }

  /** @returns the first `numShared` ids of the last prompt followed by the rest, read-only */
  appendTo(numShared: number, rest: Int32Array): Int32Array {
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
