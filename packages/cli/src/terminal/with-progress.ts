/** Work that ends within the first interval shows no progress. */
const REDRAW_MS = 1_000;
/** Between two lines where there is no terminal. */
const PLAIN_MS = 15_000;
const CLEAR_LINE = '\r\u001b[2K';

/**
 * Runs work that may take long, and from its second second on says so on stderr: a line that counts seconds on a terminal, a line now and then elsewhere.
 *
 * @param label what is being done, e.g. `exporting step 3`
 * @param detail more about how far it is, asked for at each line
 */
export async function withProgress<Result>(
  label: string,
  work: () => Promise<Result>,
  detail: () => string = () => '',
): Promise<Result> {
  const { stderr } = process;
  const isTerminal = stderr.isTTY;
  const startedMs = performance.now();
  let saidMs = -Infinity;
  const timer = setInterval(() => {
    const nowMs = performance.now();
    if (!isTerminal && nowMs - saidMs < PLAIN_MS) return;
    saidMs = nowMs;
    const line = `${label}${detail()} … ${((nowMs - startedMs) / 1000).toFixed(0)} s`;
    stderr.write(isTerminal ? `${CLEAR_LINE}${line}` : `${line}\n`);
  }, REDRAW_MS);
  timer.unref();
  try {
    return await work();
  } finally {
    clearInterval(timer);
    if (isTerminal && saidMs > 0) stderr.write(CLEAR_LINE);
  }
}
