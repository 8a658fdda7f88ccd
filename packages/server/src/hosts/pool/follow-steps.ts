import { type Checkpoints, type Feed, type Models, StoreError } from '@trainyard/store';

import type { PublishStep } from '../../seams/contract/backends.ts';
import { unlessAborted } from '../../seams/streams/unless-aborted.ts';

/** Events read at a time. */
const BATCH = 200;
/** A loading that takes longer is left to the first request. */
const LOAD_MS = 60_000;
/** A lost notification delays a step by at most this. */
const POLL_MS = 3_000;

interface Following {
  readonly store: {
    readonly feed: Pick<Feed, 'lastPosition' | 'list' | 'watch'>;
    readonly models: Pick<Models, 'get'>;
    readonly checkpoints: Pick<Checkpoints, 'latest'>;
  };
  readonly publish: PublishStep;
  /** True for a step that a job of this process published. */
  readonly isOwn: (digest: string) => boolean;
  readonly log: (line: string) => void;
  /** Default 3,000. */
  readonly pollMs?: number;
}

/**
 * Loads new steps that other processes trained, as soon as their rows are written: for a process that samples and
 * has no port, which trainers therefore cannot ask. Only the newest step of a model is loaded.
 *
 * @returns stops following and waits for a loading in progress
 */
export function followSteps({ store, publish, isOwn, log, pollMs = POLL_MS }: Following): () => Promise<void> {
  const stopping = new AbortController();
  let position: number | null = null;
  let running: Promise<void> | null = null;
  let isAskedAgain = false;

  const look = (): void => {
    if (stopping.signal.aborted) return;
    if (running !== null) {
      isAskedAgain = true;
      return;
    }
    running = read()
      .catch((error: unknown) => {
        // The next look reads the same events again.
        if (!(error instanceof StoreError)) log(`new steps are loaded at their first requests: ${String(error)}`);
      })
      .finally(() => {
        running = null;
        if (isAskedAgain) look();
        isAskedAgain = false;
      });
  };

  async function read(): Promise<void> {
    position ??= await store.feed.lastPosition();
    while (!stopping.signal.aborted) {
      const items = await store.feed.list({ after: position, limit: BATCH });
      const models = new Set(items.filter(({ type }) => type === 'checkpoint_created').map(({ modelId }) => modelId));
      for (const id of models) if (id !== null) await load(id);
      position = items.at(-1)?.position ?? position;
      if (items.length < BATCH) return;
    }
  }

  async function load(modelId: string): Promise<void> {
    const model = await store.models.get(modelId);
    const latest = await store.checkpoints.latest(modelId);
    if (model === null || latest?.digest == null || latest.directoryKey === null || isOwn(latest.digest)) return;
    const { digest, directoryKey, step } = latest;
    const limit = AbortSignal.any([stopping.signal, AbortSignal.timeout(LOAD_MS)]);
    try {
      await unlessAborted(publish(model.baseModel, { digest, directoryKey }, limit), limit);
    } catch (error) {
      if (stopping.signal.aborted) return;
      log(`step ${step} of model ${modelId} is loaded at its first request: ${(error as Error).message}`);
    }
  }

  look();
  const unwatch = store.feed.watch(look);
  const timer = setInterval(look, pollMs).unref();
  return async () => {
    stopping.abort();
    unwatch();
    clearInterval(timer);
    await running;
  };
}
