import type { Exchange } from './watched-proxy.ts';

/** Parts of the time between the commit of a step and its first token on an engine, in order. */
export const PARTS = ['announcement', 'download', 'load', 'first token'] as const;
type Part = (typeof PARTS)[number];

/** Times of one engine, ms. A part is null if its end was not observed; the next part then includes it. */
export interface EngineTimes extends Readonly<Record<Part, number | null>> {
  /** On the clock of `performance.now()`, as is `firstTokenAt`. */
  readonly committedAt: number;
  readonly firstTokenAt: number;
  readonly total: number;
  /** Bytes of the step that the engine fetched. */
  readonly bytes: number;
}

/** Request that commits a step: the last object of its directory. */
export const COMMIT = /\/directories\/(checkpoints\/[^/]+)\.dir\/manifest\.json$/;
const GENERATE = '/engine/v1/generate';

/**
 * Times of a step on one engine.
 * @param seen Exchanges since the job was submitted: of the trainer and of the engine with the bucket, of API
 * processes (or a trainer) with the engine, and the time of the first token of each prompt.
 * @throws if the step was not committed, or the engine sampled nothing of it
 */
export function timesOf(seen: {
  readonly trainer: readonly Exchange[];
  readonly bucket: readonly Exchange[];
  readonly calls: readonly Exchange[];
  readonly firstTokens: ReadonlyMap<string, number>;
}): EngineTimes {
  const commit = seen.trainer.findLast(({ method, path }) => method === 'PUT' && COMMIT.test(path));
  const key = COMMIT.exec(commit?.path ?? '')?.[1];
  if (key === undefined || commit?.endedAt == null) throw new Error('no step was committed in this round');
  const committedAt = commit.endedAt;
  const named = seen.calls.filter(({ body }) => body.includes(key));
  const generates = named.filter(({ path }) => path === GENERATE);
  const firstTokenAt = Math.min(
    ...[...seen.firstTokens].flatMap(([prompt, at]) =>
      generates.some(({ body }) => body.includes(prompt)) ? [at] : [],
    ),
  );
  if (!Number.isFinite(firstTokenAt)) throw new Error('an engine sampled nothing of the new step');
  const fetched = seen.bucket.filter(({ path, startedAt }) => path.includes(`${key}.dir/`) && startedAt < firstTokenAt);
  const announcedAt = Math.min(...[...named, ...fetched].map(({ startedAt }) => startedAt));
  const files = fetched.filter(({ path }) => !COMMIT.test(path));
  const downloadedAt = files.length === 0 ? null : Math.max(...files.map(({ endedAt }) => endedAt ?? 0));
  const announcement = named.find(({ path }) => path !== GENERATE);
  const loadedAt = announcement?.endedAt ?? null;
  return {
    committedAt,
    firstTokenAt,
    announcement: announcedAt - committedAt,
    download: downloadedAt === null ? null : downloadedAt - announcedAt,
    load: loadedAt === null ? null : loadedAt - (downloadedAt ?? announcedAt),
    'first token': firstTokenAt - (loadedAt ?? downloadedAt ?? announcedAt),
    total: firstTokenAt - committedAt,
    bytes: fetched.reduce((sum, { answerBytes }) => sum + answerBytes, 0),
  };
}
