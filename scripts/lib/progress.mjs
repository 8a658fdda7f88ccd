const REDRAW_MS = 100;
const BAR_CELLS = 28;
/** Without a terminal one line is printed per quarter. */
const PLAIN_STEPS = 4;

/** @param {number} bytes */
export function formatMegabytes(bytes) {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Shows the progress of a transfer: a bar that redraws itself on a terminal, a few plain lines in a log. */
export class Progress {
  #label;
  #totalBytes;
  #stream;
  #drawnAtMs = 0;
  #printedSteps = 0;

  /**
   * @param {{ label: string, totalBytes: number, stream?: NodeJS.WriteStream | NodeJS.WritableStream & { isTTY?: boolean } }} options
   *   `stream` is stderr unless given
   */
  constructor({ label, totalBytes, stream = process.stderr }) {
    this.#label = label;
    this.#totalBytes = totalBytes;
    this.#stream = stream;
  }

  /** @param {number} doneBytes all existing bytes, including those of an earlier attempt */
  update(doneBytes) {
    const fraction = Math.min(1, doneBytes / this.#totalBytes);
    if (this.#stream.isTTY) this.#redraw(fraction, doneBytes);
    else this.#printStep(fraction, doneBytes);
  }

  /** Ends the bar's line; nothing is drawn afterwards. */
  end() {
    if (this.#stream.isTTY && this.#drawnAtMs > 0) this.#stream.write('\n');
  }

  /** @param {number} fraction @param {number} doneBytes */
  #redraw(fraction, doneBytes) {
    const nowMs = Date.now();
    if (fraction < 1 && nowMs - this.#drawnAtMs < REDRAW_MS) return;
    this.#drawnAtMs = nowMs;
    const filled = Math.round(fraction * BAR_CELLS);
    const bar = '█'.repeat(filled) + '░'.repeat(BAR_CELLS - filled);
    this.#stream.write(`\r\u001b[K${this.#label} ${bar} ${this.#amounts(fraction, doneBytes)}`);
  }

  /** @param {number} fraction @param {number} doneBytes */
  #printStep(fraction, doneBytes) {
    const step = Math.floor(fraction * PLAIN_STEPS);
    if (step <= this.#printedSteps) return;
    this.#printedSteps = step;
    this.#stream.write(`${this.#label} ${this.#amounts(fraction, doneBytes)}\n`);
  }

  /** @param {number} fraction @param {number} doneBytes */
  #amounts(fraction, doneBytes) {
    return `${Math.floor(fraction * 100)} % of ${formatMegabytes(this.#totalBytes)} (${formatMegabytes(doneBytes)})`;
  }
}
