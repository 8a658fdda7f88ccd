import { LARGEST_SINGLE } from '@trainyard/protocol/fields';
import type { WireTrajectory, WireTrajectoryGroup } from '@trainyard/protocol';
import type { History, Trajectory, TrajectoryGroup } from '@trainyard/trainer';
import { isDeeperThan, MAX_JSON_DEPTH, TOO_DEEP } from '../../seams/json/json-depth.ts';
import {
  contradictionOf,
  hasTokensOf,
  namedRecord,
  recordOfAnswer,
  type RecordedChoice,
  type SampledTokens,
} from './recorded-choice.ts';
import { pythonTools, pythonVariables } from '../../seams/chat/written-values.ts';
import { checkFinite } from './check-finite.ts';
import { type Place, TrajectoryFormatError } from './trajectory-format-error.ts';
import { isObject } from '../../seams/json/is-object.ts';

type HistoryItem = History['items'][number];
type TemplateMessage = HistoryItem['message'];
type ChoiceItem = Extract<HistoryItem, { kind: 'choice' }>;
type Drawn = NonNullable<ChoiceItem['sampling']> | null;

/**
 * Sampling computes a log-softmax in 32-bit floats, which can exceed 0 by a few units in the last place for a
 * certain token. Such a value is 0; anything larger is not a log-probability.
 */
const LOGPROB_ROUNDING = 1e-5;

export interface GroupOptions {
  /** Ids must be below this; absent or null = unknown, no upper limit here. */
  vocabSize?: number | null;
  /** A choice with `token_ids` and without log-probabilities is kept as a choice, its log-probabilities NaN. Default false: it is context. */
  keepsBareIds?: boolean;
  /** Records, by `record_id`. A choice whose record is missing is read as if it named none. Default: none. */
  records?: ReadonlyMap<string, RecordedChoice>;
  /** The group passed all rules when it was stored: only what reading relies on is asserted. Default false. */
  isChecked?: boolean;
}

/**
 * A group in the trainer's form: the only rules for groups, and the only reading of their wire form. A request is
 * refused by these rules before it is stored; the trainer's process reads what was stored, with `isChecked`.
 *
 * A sampled choice, or an assistant message with `logprobs`, becomes a `choice` with its token ids:
 * `token_ids` if there are as many as logprob entries, else the entries' own `token_id:N`; if both are
 * complete they must agree. If either is missing, both come from its record. Without any of these it is
 * context, not trained. A choice's `prompt_token_ids` are the prompt that it was sampled after.
 * @param index place of the group in the job, for messages
 * @throws {TrajectoryFormatError}
 */
export function trajectoryGroupOf(
  group: WireTrajectoryGroup,
  index: number,
  options: GroupOptions = {},
): TrajectoryGroup {
  const place: Place = ['body', 'trajectory_groups', index];
  return {
    trajectories: group.trajectories.map((trajectory, number) =>
      readTrajectory(trajectory, [...place, 'trajectories', number], options),
    ),
    numExceptions: group.exceptions?.length ?? 0,
  };
}

function readTrajectory(trajectory: WireTrajectory, place: Place, options: GroupOptions): Trajectory {
  const reward = Number(trajectory.reward);
  // The gradient is in single precision.
  if (!Number.isFinite(Math.fround(reward)))
    fail(
      [...place, 'reward'],
      'finite_number',
      `Input should be a finite number in [-${LARGEST_SINGLE}, ${LARGEST_SINGLE}]`,
      Number.isFinite(reward) ? reward : String(reward),
    );
  const { messages_and_choices: items = [], tools, chat_template_kwargs: variables } = trajectory;
  const first = { messages_and_choices: items, tools, chat_template_kwargs: variables };
  const histories = [readHistory(first, place, options)];
  (trajectory.additional_histories ?? []).forEach((history, index) =>
    histories.push(readHistory(history, [...place, 'additional_histories', index], options)),
  );
  return { reward, histories };
}

function readHistory(
  history: {
    messages_and_choices: unknown[];
    tools?: object[] | null | undefined;
    chat_template_kwargs?: Record<string, unknown> | null | undefined;
  },
  place: Place,
  options: GroupOptions,
): History {
  if (!options.isChecked) {
    checkFinite(history.tools, [...place, 'tools']);
    checkFinite(history.chat_template_kwargs, [...place, 'chat_template_kwargs']);
  }
  const items = history.messages_and_choices.map((item, index) =>
    readItem(item, [...place, 'messages_and_choices', index], options),
  );
  const variables = pythonVariables(history.chat_template_kwargs);
  return {
    items,
    tools: pythonTools(history.tools),
    ...(Object.keys(variables).length === 0 ? {} : { templateVariables: variables }),
  };
}

function readItem(item: unknown, place: Place, options: GroupOptions): HistoryItem {
  if (!isObject(item)) fail(place, 'dict_type', 'Input should be a message or a choice');
  const isChoice = isObject(item['message']);
  if (!isChoice && typeof item['role'] !== 'string')
    fail(place, 'missing', 'Input should be a message, with `role`, or a choice, with `message` and `finish_reason`');
  const message = (isChoice ? { role: 'assistant', ...(item['message'] as object) } : item) as TemplateMessage;
  if (!options.isChecked) checkMessage(message, isChoice ? [...place, 'message'] : place);
  const isReply = isChoice || item['role'] === 'assistant';
  const entries = isReply ? logprobEntries(item['logprobs'], [...place, 'logprobs']) : null;
  const given = isReply ? readIds(item['token_ids'], [...place, 'token_ids'], options) : null;
  const prompt = isReply ? readIds(item['prompt_token_ids'], [...place, 'prompt_token_ids'], options) : null;
  const record = isReply ? readRecord(item, place, options) : null;
  const ending = {
    ...(typeof item['finish_reason'] === 'string' ? { finishReason: item['finish_reason'] } : {}),
    ...identityOf(item),
  };
  if (record !== null) {
    const { promptTokenIds, tokenIds, logprobs } = record;
    const drawn = drawnAccordingTo(record);
    return { kind: 'choice', message, promptTokenIds, tokenIds, logprobs, ...drawn, ...ending };
  }
  const promptTokenIds = prompt === null || prompt.length === 0 ? {} : { promptTokenIds: prompt };
  if (entries === null || entries.list.length === 0) {
    if (!options.keepsBareIds || given === null || given.length === 0) return { kind: 'message', message };
    const logprobs = new Float32Array(given.length).fill(Number.NaN);
    return { kind: 'choice', message, tokenIds: given, logprobs, ...promptTokenIds, ...ending };
  }
  return {
    kind: 'choice',
    message,
    tokenIds: readTokenIds(given, entries, options),
    logprobs:
      logprobsOfLogits(item, options) ??
      Float32Array.from(entries.list, (entry, index) => readLogprob(entry, [...entries.place, index])),
    ...drawnAs(item, options),
    ...promptTokenIds,
    ...ending,
  };
}

type DrawnFields = Pick<ChoiceItem, 'sampling' | 'policyDigest' | 'isRecordLost'>;

/** Names that identify a sample. A record found by tokens does not: equal answers have the same tokens. */
function identityOf(item: Record<string, unknown>): Pick<ChoiceItem, 'recordId' | 'answerPlace'> {
  const { id, index, record_id: given } = item;
  const recordId = typeof given === 'string' ? given : recordOfAnswer(id, index);
  const place = [typeof id === 'string' ? id : '', Number.isSafeInteger(index) ? String(index) : ''];
  return {
    ...(recordId === null ? {} : { recordId }),
    ...(place.every((part) => part === '') ? {} : { answerPlace: place.join(' ') }),
  };
}

/** Sampling settings and prompt from the record of a choice with its own tokens. */
function drawnAs(
  item: Record<string, unknown>,
  options: GroupOptions,
): DrawnFields & Pick<ChoiceItem, 'promptTokenIds'> {
  const named = namedRecord(item);
  if (named === null) return {};
  const record = options.records?.get(named.id);
  if (record === undefined) return named.isNamed ? { isRecordLost: true } : {};
  // The record does not describe ids that a client changed.
  if (record.kind === 'sampled' && !hasTokensOf(item, record)) return {};
  const { promptTokenIds } = record;
  return {
    ...(record.kind === 'plain' ? { sampling: null } : drawnAccordingTo(record)),
    ...(promptTokenIds === undefined ? {} : { promptTokenIds }),
  };
}

/** Log-probabilities of a choice whose answer had logits instead; else null. */
function logprobsOfLogits(item: Record<string, unknown>, options: GroupOptions): Float32Array | null {
  const named = namedRecord(item);
  const record = named === null ? undefined : options.records?.get(named.id);
  if (record?.kind !== 'sampled' || !hasTokensOf(item, record)) return null;
  return (record.sampling as Drawn | undefined)?.settings.reportsLogits === true ? record.logprobs : null;
}

/** Sampling as the engine reported it when it was recorded. */
function drawnAccordingTo({ sampling, digest }: SampledTokens): DrawnFields {
  if (sampling === undefined) return { isRecordLost: true };
  return {
    sampling: sampling as Drawn,
    ...(sampling === null || digest === undefined ? {} : { policyDigest: digest }),
  };
}

/**
 * Reads a choice from its record if it lacks tokens or log-probabilities. Null if there is nothing to train
 * on.
 */
function readRecord(item: Record<string, unknown>, place: Place, options: GroupOptions): SampledTokens | null {
  const given = item['record_id'] ?? null;
  if (given !== null && typeof given !== 'string')
    fail([...place, 'record_id'], 'string_type', 'Input should be a valid string');
  const named = namedRecord(item);
  const known = named?.isNeeded === true ? options.records?.get(named.id) : undefined;
  if (known?.kind !== 'sampled' || known.tokenIds.length === 0) return null;
  const { kind: _kind, ...record } = known;
  if (options.isChecked) return record;
  const contradiction = contradictionOf(item, record);
  if (contradiction !== null)
    fail([...place, ...contradiction.loc], 'record_mismatch', contradiction.msg, contradiction.input);
  for (const tokenId of record.tokenIds) checkTokenId(tokenId, [...place, 'record_id'], options);
  return record;
}

/** Text parts of a message's content; models here read only text. */
const TEXT_PARTS: ReadonlySet<unknown> = new Set([
  'text',
  'input_text',
  'output_text',
  'refusal',
  'thinking',
  undefined,
]);

/** Refuses content that no template can render; templates check the rest. */
function checkMessage(message: object, place: Place): void {
  if (isDeeperThan(message, MAX_JSON_DEPTH)) fail(place, 'recursion_limit', TOO_DEEP);
  const { role, content, tool_calls: calls } = message as { role?: unknown; content?: unknown; tool_calls?: unknown };
  checkFinite(calls, [...place, 'tool_calls']);
  if (typeof role !== 'string') fail([...place, 'role'], 'string_type', 'Input should be a valid string');
  if (content !== undefined && content !== null && typeof content !== 'string' && !Array.isArray(content)) {
    fail([...place, 'content'], 'string_type', 'Input should be a valid string or list');
  }
  if (Array.isArray(content)) content.forEach((part: unknown, index) => checkPart(part, [...place, 'content', index]));
  if (role === 'assistant' && calls !== undefined && calls !== null) checkCalls(calls, [...place, 'tool_calls']);
}

function checkPart(part: unknown, place: Place): void {
  if (typeof part === 'string') return;
  if (!isObject(part)) fail(place, 'dict_type', 'Input should be a string, or a part with `type` and `text`', part);
  const { type } = part;
  if (!TEXT_PARTS.has(type))
    fail([...place, 'type'], 'literal_error', "Input should be 'text': this service reads only text", type);
  const key = type === 'refusal' || type === 'thinking' ? type : 'text';
  const text = part[key];
  // As in a chat: null is absent, and only parts with a type may lack the text.
  const isAbsent = text === null || (text === undefined && type !== undefined);
  if (!isAbsent && typeof text !== 'string')
    fail([...place, key], 'string_type', 'Input should be a valid string', text);
}

/** With calls of another shape a template fails, or drops them and renders another prompt than at sampling. */
function checkCalls(calls: unknown, place: Place): void {
  if (!Array.isArray(calls)) fail(place, 'list_type', 'Input should be a valid list');
  calls.forEach((call: unknown, index) => {
    const at = [...place, index];
    if (!isObject(call)) fail(at, 'dict_type', 'Input should be a call, with `function`', call);
    const { function: called } = call;
    if (!isObject(called)) fail([...at, 'function'], 'dict_type', 'Input should have `name` and `arguments`', called);
    const { name, arguments: args } = called;
    if (typeof name !== 'string')
      fail([...at, 'function', 'name'], 'string_type', 'Input should be a valid string', name);
    if (args === undefined || args === null || typeof args === 'string' || isObject(args)) return;
    fail([...at, 'function', 'arguments'], 'string_type', 'Input should be a valid string, or an object', args);
  });
}

interface Entries {
  list: readonly unknown[];
  place: Place;
}

function logprobEntries(logprobs: unknown, place: Place): Entries | null {
  if (logprobs === undefined || logprobs === null) return null;
  if (!isObject(logprobs)) fail(place, 'dict_type', 'Input should be an object with `content`');
  const key = logprobs['content'] ? 'content' : 'refusal';
  const list = logprobs[key];
  if (list === undefined || list === null) return null;
  if (!Array.isArray(list)) fail([...place, key], 'list_type', 'Input should be a valid list');
  return { list, place: [...place, key] };
}

/** Null when there are none. */
function readIds(value: unknown, place: Place, options: GroupOptions): Int32Array | null {
  if (value === undefined || value === null) return null;
  if (!Array.isArray(value)) fail(place, 'list_type', 'Input should be a valid list');
  return Int32Array.from(value, (id: unknown, index) => checkTokenId(id, [...place, index], options));
}

/**
 * If both are complete they must agree: ids that belong to another reply than its log-probabilities would
 * train nonsense.
 */
function readTokenIds(given: Int32Array | null, entries: Entries, options: GroupOptions): Int32Array {
  const isComplete = given !== null && given.length === entries.list.length;
  if (isComplete && options.isChecked) return given;
  return Int32Array.from(entries.list, (entry, index) => {
    const token = isObject(entry) ? entry['token'] : undefined;
    const digits = typeof token === 'string' ? /^token_id:(-?\d+)$/.exec(token)?.[1] : undefined;
    const at = [...entries.place, index, 'token'];
    const id = given?.[index];
    if (isComplete && id !== undefined) {
      if (digits !== undefined && Number(digits) !== id)
        fail(at, 'token_id', `Input should be token_id:${id} as in \`token_ids\` of the choice`, token);
      return id;
    }
    if (digits === undefined)
      fail(
        at,
        'token_id',
        'Input should be `token_id:N`, or the choice should carry `token_ids` for every logprob entry',
        token,
      );
    return checkTokenId(Number(digits), at, options);
  });
}

function checkTokenId(id: unknown, place: Place, options: GroupOptions): number {
  const limit = options.vocabSize ?? 2 ** 31;
  if (typeof id === 'number' && Number.isInteger(id) && id >= 0 && id < limit) return id;
  return fail(place, 'token_out_of_range', `Input should be a token id in [0, ${limit})`, id);
}

function readLogprob(entry: unknown, place: Place): number {
  const logprob = isObject(entry) ? entry['logprob'] : undefined;
  // Stored in 32 bits: a value that is infinite there cannot have been sampled.
  if (typeof logprob === 'number' && Number.isFinite(Math.fround(logprob)) && logprob <= LOGPROB_ROUNDING)
    return Math.min(logprob, 0);
  return fail(
    [...place, 'logprob'],
    'logprob_invalid',
    'Input should be a finite natural logarithm of at most 0. A choice with logits needs its `record_id`',
    logprob,
  );
}

function fail(loc: Place, type: string, msg: string, input?: unknown): never {
  const isScalar = input !== undefined && typeof input !== 'object';
  throw new TrajectoryFormatError({
    loc: [...loc],
    msg,
    type,
    ...(isScalar ? { input: typeof input === 'string' ? input.slice(0, 200) : input } : {}),
  });
}
