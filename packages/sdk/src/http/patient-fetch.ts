/** Used part of undici's dispatchers, which Node's `fetch` sends with. */
interface Dispatcher {
  dispatch(options: object, handler: unknown): boolean;
}

/** Key of the process's dispatcher in undici: its own, or one set by the program, for example for a proxy. */
const DISPATCHER = Symbol.for('undici.globalDispatcher.1');

/**
 * The global `fetch` without a time limit for the start of a response: Node's limit is 300 s, and callers
 * here have their own. The plain global `fetch` in other runtimes, and for a request with its own dispatcher.
 */
export const patientFetch: typeof fetch = (input, init) => {
  const isPlain = init === undefined || !('dispatcher' in init);
  const own: object = isPlain && dispatcherOfProcess() !== undefined ? PATIENT : {};
  return globalThis.fetch(input, { ...init, ...own });
};

/** Looks up the process's dispatcher at each call, because a program may replace it. */
const PATIENT = {
  dispatcher: {
    dispatch: (options: object, handler: unknown) =>
      dispatcherOfProcess()!.dispatch({ ...options, headersTimeout: 0 }, handler),
  },
};

/** Undefined in browsers, Bun and Deno, and in Node before the first use of `fetch`. */
function dispatcherOfProcess(): Dispatcher | undefined {
  return (globalThis as { [DISPATCHER]?: Dispatcher })[DISPATCHER];
}
