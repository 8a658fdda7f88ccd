/** Redraw interval; work that ends within the first one shows no progress. */
const REDRAW_MS = 1_000;
/** Time between two lines without a terminal. */
const PLAIN_MS = 15_000;
const CLEAR_LINE = '\r\u001b[2K';

/**
 * Runs work that may take long, and shows progress on stderr after the first second: a line that counts
 * seconds on a terminal, occasional lines otherwise.
 *
 * @param label description of the work, e.g. `exporting step 3`
 * @param detail further progress, read for each line
 */
export async function withProgress<Result>(
  label: string,
  work: () => Promise<Result>,
  detail: () => string = () => '',
): Promise<Result> {
  const { stderr } = process;
  const isTerminal = stderr.isTTY;
  const startedMs = performance.now();
  let printedMs = -Infinity;
  const timer = setInterval(() => {
    const nowMs = performance.now();
    if (!isTerminal && nowMs - printedMs < PLAIN_MS) return;
    printedMs = nowMs;
    const line = `${label}${detail()} … ${((nowMs - startedMs) / 1000).toFixed(0)} s`;
    stderr.write(isTerminal ? `${CLEAR_LINE}${line}` : `${line}\n`);
  }, REDRAW_MS);
  timer.unref();
  try {
    return await work();
  } finally {
    clearInterval(timer);
    if (isTerminal && printedMs > 0) stderr.write(CLEAR_LINE);
  }
}
