import type { Health, Readiness } from '@trainyard/protocol';
import { type Blobs, placeKey, type Store, StoreError } from '@trainyard/store';

import type { InferenceBackend, TrainingQueue, Problem } from '../contract/backends.ts';
import { trainersOf } from '../contract/trained-base-models.ts';
import { AnswerWatch } from './answer-watch.ts';
import type { Drain } from './drain.ts';

type Part = Health['reasons'][number]['part'];
type Reason = Health['reasons'][number];
type PartCount = NonNullable<Health['parts']['engines']>;

export interface HealthSources {
  readonly store: Pick<Store, 'database' | 'files' | 'members'>;
  readonly blobs: Pick<Blobs, 'location' | 'has'>;
  /** Null without sampling. */
  readonly inference: Pick<InferenceBackend, 'models' | 'of' | 'problem' | 'isRemote'> | null;
  /** Null without training and its queue. */
  readonly training: Pick<TrainingQueue, 'baseModels' | 'problem'> | null;
  /** Limits of the machine. Default: not watched. */
  readonly machine?: { readonly problem: string | null };
  /** Notices for the operator. Default: none. */
  readonly notices?: () => readonly string[];
  readonly drain: Pick<Drain, 'isDraining'>;
}

/** Parts that requests to this process need: without them load balancers skip it. */
const NEEDED: ReadonlySet<Part> = new Set(['inference', 'draining']);

/** Health of this process and the parts it uses, as `/health`, `/readyz` and the metrics report it. */
export class ServiceHealth {
  readonly #sources: HealthSources;
  readonly #database: AnswerWatch;
  /** Null: blobs are in a folder. */
  readonly #bucket: AnswerWatch | null;
  /** Members of the service: several watchers share one reading, as with {@link AnswerWatch}. */
  readonly #membership: AnswerWatch;
  #members: Awaited<ReturnType<Store['members']['list']>> = [];
  /** Cached for the time when the database is away. */
  #blobsId: string | null = null;

  constructor(sources: HealthSources) {
    const { store, blobs } = sources;
    this.#sources = sources;
    this.#database = new AnswerWatch({
      name: 'database',
      ask: async () => {
        await store.database.ping().catch((error: unknown) => {
          // Another process may hold its lock, but the database answers.
          if (!(error instanceof StoreError) || error.code !== 'store.busy') throw error;
        });
      },
    });
    this.#membership = new AnswerWatch({
      name: 'database',
      ask: async () => void (this.#members = await store.members.list()),
    });
    const ask = async () => {
      this.#blobsId ??= await store.files.blobsId().catch(() => null);
      if (!(await blobs.has(placeKey(this.#blobsId ?? 'none'))) && this.#blobsId !== null)
        throw new Error('the bucket lacks the mark of this database');
    };
    this.#bucket = blobs.location.kind === 's3' ? new AnswerWatch({ name: 'bucket', ask }) : null;
  }

  async report(): Promise<Health> {
    const { notices = () => [], drain } = this.#sources;
    const [database, bucket, own] = await Promise.all([
      this.#database.problem(),
      this.#bucket?.problem() ?? null,
      this.#ownReasons(),
    ]);
    const parts: Health['parts'] = {
      database: { is_up: database === null, reason: database },
      bucket: this.#bucket === null ? null : { is_up: bucket === null, reason: bucket },
      engines: await this.#engines(),
      trainers: database === null ? await this.#trainers() : null,
      draining: drain.isDraining,
    };
    const has = (part: Part) => own.some((reason) => reason.part === part);
    const reasons: Reason[] = [
      ...own,
      ...reasonsOf('store', database ?? this.#sources.store.database.problem()),
      ...reasonsOf('bucket', bucket),
      // A part that has a problem as a whole has reported it above.
      ...reasonsOf('engines', has('inference') ? null : missing(parts.engines, 'engines accept requests')),
      ...reasonsOf('trainers', has('training') ? null : missing(parts.trainers, 'trainers accept jobs')),
      ...reasonsOf('draining', drain.isDraining ? DRAINING : null),
    ];
    const texts = notices();
    const status = reasons.length === 0 ? 'healthy' : 'degraded';
    return { status, reasons, parts, ...(texts.length > 0 && { notices: [...texts] }) };
  }

  /** Answer of `GET /readyz`: readiness for requests, or for jobs if this process only trains. */
  async readiness(): Promise<Readiness> {
    const { drain, inference } = this.#sources;
    const [database, own] = await Promise.all([this.#database.problem(), this.#ownReasons()]);
    const isNeeded = ({ part }: Reason) => NEEDED.has(part) || (part === 'training' && inference === null);
    const reasons = [
      ...reasonsOf('draining', drain.isDraining ? DRAINING : null),
      ...reasonsOf('store', database),
      ...own.filter(isNeeded),
    ];
    return { status: reasons.length === 0 ? 'ready' : 'not_ready', reasons };
  }

  async #ownReasons(): Promise<Reason[]> {
    const { inference, training, machine } = this.#sources;
    const problems: readonly (readonly [Part, Problem])[] = [
      ['inference', inference?.problem() ?? null],
      ['training', training?.problem() ?? null],
      ['machine', machine?.problem ?? null],
    ];
    return (await Promise.all(problems.map(async ([part, problem]) => reasonsOf(part, await problem)))).flat();
  }

  /** Known engines or vLLM servers; the process's own if it samples itself. */
  async #engines(): Promise<PartCount | null> {
    const { inference } = this.#sources;
    if (inference === null) return null;
    const isOwnUp = (await inference.problem()) === null;
    const members = new Map(
      inference.models.flatMap(({ id }) => (inference.of(id).members?.() ?? []).map((member) => [member.name, member])),
    );
    if (members.size === 0 && inference.isRemote !== true) return { ready: isOwnUp ? 1 : 0, total: 1 };
    const ready = [...members.values()].filter(({ state, trouble }) => state === 'up' && trouble === null);
    const draining = [...members.values()].filter(({ state }) => state === 'draining');
    return { ready: ready.length, total: members.size - draining.length };
  }

  /** Registered trainers; the process's own with a private database. Null: unknown. */
  async #trainers(): Promise<PartCount | null> {
    const { training } = this.#sources;
    if (training === null || (await this.#membership.problem()) !== null) return null;
    const members = trainersOf(this.#members);
    const isHere = training.baseModels === null || training.baseModels.length > 0;
    if (members.length === 0 && isHere) return { ready: training.problem() === null ? 1 : 0, total: 1 };
    return { ready: members.filter(({ capacity }) => capacity !== 0).length, total: members.length };
  }
}

const DRAINING = 'this process is shutting down';

function reasonsOf(part: Part, reason: string | null): Reason[] {
  return reason === null ? [] : [{ part, reason }];
}

function missing(count: PartCount | null, what: string): string | null {
  if (count === null || count.ready === count.total) return null;
  return `${count.ready} of ${count.total} ${what}`;
}
