/** The part of undici's dispatchers, which Node's `fetch` sends by, that is used here. */
interface Dispatcher {
  dispatch(options: object, handler: unknown): boolean;
}

/** Where undici keeps the dispatcher of the process: its own, or one that the program has put there, for a proxy say. */
const DISPATCHER = Symbol.for('undici.globalDispatcher.1');

/**
 * The global `fetch` without a limit on the time until an answer begins: Node's own gives up after 300 s, and callers here have a time of their own. Elsewhere, and
 * for a request that brings a dispatcher, it is the global `fetch`.
 */
export const patientFetch: typeof fetch = (input, init) => {
  const isPlain = init === undefined || !('dispatcher' in init);
  const own: object = isPlain && dispatcherOfProcess() !== undefined ? PATIENT : {};
  return globalThis.fetch(input, { ...init, ...own });
};

/** Asks the dispatcher of the process each time, since a program may put another in its place. */
const PATIENT = {
  dispatcher: {
    dispatch: (options: object, handler: unknown) =>
      dispatcherOfProcess()!.dispatch({ ...options, headersTimeout: 0 }, handler),
  },
};

/** Undefined in browsers, Bun and Deno, and in Node before anything of `fetch` was used. */
function dispatcherOfProcess(): Dispatcher | undefined {
  return (globalThis as { [DISPATCHER]?: Dispatcher })[DISPATCHER];
}
