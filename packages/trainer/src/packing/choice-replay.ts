import { type ChoiceSampling, distributionChanges } from '@trainyard/protocol/fields';
import { isKept, readKeptTokens, type ChoiceItem, type HistoryItem } from '@trainyard/tokenizer';
import type { LogitShifts, KeptSet, RowReplay } from '../model/row-replay.ts';

export interface ChoiceReplay {
  readonly temperature: number;
  readonly sets: readonly KeptSet[];
  /** [n] index into `sets`, -1 = every token. */
  readonly setOf: Int32Array;
  /** Null: no logit is shifted. */
  readonly shifts: LogitShifts | null;
  /**
   * Adapter that drew it, null = the base model; it computes unreported log-probabilities. Absent: all were
   * reported.
   */
  readonly policyDigest?: string | null;
}

export interface PlacedReplay {
  readonly start: number;
  readonly replay: ChoiceReplay;
}

/**
 * Reason for which a choice cannot be trained under its sampling distribution. `greedy`, `too_large` and
 * `undetermined`: see `LostTrace`; `unknown`: it names no record; `record_gone`: its record no longer exists;
 * `policy_gone`: its checkpoint no longer exists, and its log-probabilities were not reported; `unreadable`: its
 * record contradicts its tokens; `unsupported`: the learner cannot replay.
 */
export type UnreplayedReason =
  | 'greedy'
  | 'too_large'
  | 'undetermined'
  | 'unknown'
  | 'record_gone'
  | 'policy_gone'
  | 'unreadable'
  | 'unsupported';

/** A greedy choice has nothing to replay, and foreign choices of a client are trusted. */
const ALWAYS_TRAINED: ReadonlySet<UnreplayedReason> = new Set(['greedy', 'unknown']);

/** Counts of choices without replay. */
export type UnreplayedChange = 'temperature' | 'truncation' | 'constraint' | 'penalties';

/** Counts over a job's choices. */
export interface SamplingReport {
  readonly numChoices: number;
  readonly numReplayed: number;
  /** Trained as if drawn plainly from the model. */
  readonly unreplayed: Readonly<Partial<Record<UnreplayedReason, number>>>;
  /** Not trained. */
  readonly refused: Readonly<Partial<Record<UnreplayedReason, number>>>;
  readonly changes: Readonly<Partial<Record<UnreplayedChange, number>>>;
}

/** Traces take four times as much once read, and all are read before the first step. */
const MAX_JOB_TRACE_BYTES = 64 * 1024 ** 2;

export interface ReplayOptions {
  /** Default true. */
  readonly canReplay?: boolean;
  /** Trains choices with unknown or uncomputable sampling as if drawn plainly. Default false: they are context. */
  readonly allowsUnknown?: boolean;
  /** Log-probabilities under the adapter of a digest can be computed; null = the base model. Default: never. */
  readonly hasPolicy?: (digest: string | null) => boolean;
  /** Later choices are not replayed, as too large. */
  readonly maxTraceBytes?: number;
}

/** Finds the replays of choices, and counts those without one. */
export class ReplayLedger {
  readonly #canReplay: boolean;
  readonly #allowsUnknown: boolean;
  readonly #hasPolicy: (digest: string | null) => boolean;
  readonly #maxTraceBytes: number;
  #traceBytes = 0;
  readonly #replays = new Map<ChoiceItem, ChoiceReplay>();
  readonly #unreplayed: Partial<Record<UnreplayedReason, number>> = {};
  readonly #refused: Partial<Record<UnreplayedReason, number>> = {};
  readonly #changes: Partial<Record<UnreplayedChange, number>> = {};
  /** Copies of a choice name the same record. */
  readonly #counted = new Set<string>();
  /** Values as sent, by replayed choice. */
  readonly #sent = new Map<ChoiceItem, Float32Array>();
  #numChoices = 0;
  #numReplayed = 0;

  constructor({
    canReplay = true,
    allowsUnknown = false,
    hasPolicy = () => false,
    maxTraceBytes = MAX_JOB_TRACE_BYTES,
  }: ReplayOptions = {}) {
    this.#canReplay = canReplay;
    this.#allowsUnknown = allowsUnknown;
    this.#hasPolicy = hasPolicy;
    this.#maxTraceBytes = maxTraceBytes;
  }

  /**
   * @returns a replayed item with the log-probabilities under its sampling distribution, NaN if still to be
   * computed; a refused one as context
   */
  prepare(item: HistoryItem): HistoryItem {
    if (item.kind !== 'choice' || item.tokenIds.length === 0 || item.logprobs.every(Number.isNaN)) return item;
    const isCopy = item.recordId !== undefined && this.#counted.has(item.recordId);
    if (item.recordId !== undefined) this.#counted.add(item.recordId);
    if (!isCopy) this.#numChoices++;
    const { sampling } = item;
    if (sampling === null) return item;
    if (sampling === undefined) return this.#withoutReplay(item, item.isRecordLost ? 'record_gone' : 'unknown', isCopy);
    const replay = this.#replayOf(item, sampling, isCopy);
    if (typeof replay !== 'string') {
      const drawn = { ...item, logprobs: sampling.trace!.logprobs };
      this.#replays.set(drawn, replay);
      this.#sent.set(drawn, item.logprobs);
      if (!isCopy) this.#numReplayed++;
      return drawn;
    }
    const trained = this.#withoutReplay(item, hasOwnLogprobs(sampling) ? replay : 'undetermined', isCopy);
    if (trained === item && !isCopy) for (const change of changesOf(sampling)) add(this.#changes, change);
    return trained;
  }

  #withoutReplay(item: ChoiceItem, reason: UnreplayedReason, isCopy: boolean): ChoiceItem {
    const isTrained = this.#allowsUnknown || ALWAYS_TRAINED.has(reason);
    if (!isCopy) add(isTrained ? this.#unreplayed : this.#refused, reason);
    return isTrained ? item : { ...item, isContext: true };
  }

  #replayOf(item: ChoiceItem, sampling: ChoiceSampling, isCopy: boolean): ChoiceReplay | UnreplayedReason {
    const { trace, lost } = sampling;
    if (trace === null) return lost ?? 'unreadable';
    if (!this.#canReplay) return 'unsupported';
    const traceBytes = this.#traceBytes + (isCopy ? 0 : trace.kept.length);
    if (traceBytes > this.#maxTraceBytes) return 'too_large';
    const replay = replayOf(item, sampling);
    if (replay === null) return 'unreadable';
    const { policyDigest } = item;
    const isWhole = !trace.logprobs.some(Number.isNaN);
    if (!isWhole && (policyDigest === undefined || !this.#hasPolicy(policyDigest))) return 'policy_gone';
    this.#traceBytes = traceBytes;
    return isWhole || policyDigest === undefined ? replay : { ...replay, policyDigest };
  }

  /** Values as they were sent. */
  readonly sentLogprobs = (choice: ChoiceItem): Float32Array => this.#sent.get(choice) ?? choice.logprobs;

  /** Replays of a sequence's choices, in order. */
  placed(choices: readonly { start: number; choice: ChoiceItem }[]): PlacedReplay[] {
    return choices.flatMap(({ start, choice }) => {
      const replay = this.#replays.get(choice);
      return replay === undefined ? [] : [{ start, replay }];
    });
  }

  report(): SamplingReport {
    const [numReplayed, unreplayed, refused, changes] = [
      this.#numReplayed,
      this.#unreplayed,
      this.#refused,
      this.#changes,
    ];
    return { numChoices: this.#numChoices, numReplayed, unreplayed, refused, changes };
  }
}

function add<Key extends string>(counts: Partial<Record<Key, number>>, key: Key): void {
  counts[key] = (counts[key] ?? 0) + 1;
}

function changesOf({ settings }: ChoiceSampling): UnreplayedChange[] {
  const changed = distributionChanges(settings);
  const changes: UnreplayedChange[] = [];
  if (changed.has('temperature')) changes.push('temperature');
  if (changed.has('truncation')) changes.push('truncation');
  if (settings.isMasked) changes.push('constraint');
  if (shiftsLogits(settings)) changes.push('penalties');
  return changes;
}

/** True if log-probabilities without replay are the model's, or those of its draw. */
function hasOwnLogprobs({ settings, lost }: ChoiceSampling): boolean {
  return settings.hasProcessedLogprobs !== true || lost !== 'greedy' || !(settings.isMasked || shiftsLogits(settings));
}

function shiftsLogits(settings: ChoiceSampling['settings']): boolean {
  return settings.logitBias.length > 0 || distributionChanges(settings).has('penalties');
}

/** Null if there is no trace, or one of other tokens. */
function replayOf(choice: ChoiceItem, { settings, trace }: ChoiceSampling): ChoiceReplay | null {
  if (trace === null || !(settings.temperature > 0)) return null;
  const { tokenIds } = choice;
  const { logprobs } = trace;
  const isReadable = (logprob: number): boolean => Number.isNaN(logprob) || (logprob <= 0 && logprob > -Infinity);
  if (logprobs.length !== tokenIds.length || !logprobs.every(isReadable)) return null;
  const kept = readKeptTokens(trace.kept, tokenIds.length);
  if (kept === null) return null;
  const { sets, setOf } = kept;
  // Each drawn token must be in its set.
  if (!tokenIds.every((id, place) => setOf[place] === -1 || isKept(sets[setOf[place]!]!, id))) return null;
  const { logitBias: bias, repetitionPenalty, frequencyPenalty, presencePenalty, temperature } = settings;
  const shifts: LogitShifts | null = shiftsLogits(settings)
    ? {
        bias,
        repetitionPenalty,
        frequencyPenalty,
        presencePenalty,
        promptTokenIds: choice.promptTokenIds ?? new Int32Array(),
        tokenIds,
      }
    : null;
  if (repetitionPenalty !== 1 && choice.promptTokenIds === undefined) return null;
  return { temperature, sets, setOf, shifts };
}

/** One trained token. */
export interface TokenDraw {
  readonly replay: ChoiceReplay;
  /** Index in its choice. */
  readonly place: number;
}

/** @param position of a token in its sequence @returns null if it was drawn plainly */
export function drawAt(replays: readonly PlacedReplay[] | undefined, position: number): TokenDraw | null {
  const placed = replays?.findLast(({ start }) => start <= position);
  if (placed === undefined) return null;
  const place = position - placed.start;
  return place < placed.replay.setOf.length ? { replay: placed.replay, place } : null;
}

/** @param draws of the trained tokens of a row @returns null if all were drawn plainly */
export function rowReplay(draws: readonly (TokenDraw | null)[]): RowReplay | null {
  if (draws.every((draw) => draw === null)) return null;
  const keptSets: KeptSet[] = [];
  const shifts: LogitShifts[] = [];
  /** Index of a choice's first set, and of its shifts. */
  const places = new Map<ChoiceReplay, { firstSet: number; shift: number }>();
  const placesOf = (replay: ChoiceReplay) => {
    let found = places.get(replay);
    if (found === undefined) {
      found = { firstSet: keptSets.length, shift: replay.shifts === null ? -1 : shifts.length };
      places.set(replay, found);
      keptSets.push(...replay.sets);
      if (replay.shifts !== null) shifts.push(replay.shifts);
    }
    return found;
  };
  return {
    temperatures: Float64Array.from(draws, (draw) => draw?.replay.temperature ?? 1),
    keptSet: Int32Array.from(draws, (draw) => {
      const set = draw?.replay.setOf[draw.place] ?? -1;
      return draw === null || set < 0 ? -1 : placesOf(draw.replay).firstSet + set;
    }),
    keptSets,
    shift: Int32Array.from(draws, (draw) => (draw === null ? -1 : placesOf(draw.replay).shift)),
    numGenerated: Int32Array.from(draws, (draw) => draw?.place ?? 0),
    shifts,
  };
}
