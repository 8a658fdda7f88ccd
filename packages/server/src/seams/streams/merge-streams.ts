/** An item of one of several streams. */
export interface Merged<Item> {
  source: number;
  item: Item;
}

/**
 * Merges several streams in order of arrival. At most one item of each is held, so a reader that stops
 * pulling stops them all.
 * A failure of one fails the whole; the caller then ends the other streams.
 */
export async function* mergeStreams<Item>(
  streams: readonly AsyncIterator<Item, void>[],
): AsyncGenerator<Merged<Item>, void> {
  const ready: { source: number; result: IteratorResult<Item, void> }[] = [];
  let failure: { error: unknown } | null = null;
  let wake = Promise.withResolvers<void>();
  const pull = (source: number) => {
    void streams[source]?.next().then(
      (result) => {
        ready.push({ source, result });
        wake.resolve();
      },
      (error: unknown) => {
        failure ??= { error };
        wake.resolve();
      },
    );
  };
  for (const source of streams.keys()) pull(source);
  for (let numOpen = streams.length; numOpen > 0;) {
    await wake.promise;
    wake = Promise.withResolvers();
    for (let next = ready.shift(); next !== undefined; next = ready.shift()) {
      if (next.result.done) {
        numOpen -= 1;
        continue;
      }
      yield { source: next.source, item: next.result.value };
      pull(next.source);
    }
    if (failure !== null) throw (failure as { error: unknown }).error;
  }
}
