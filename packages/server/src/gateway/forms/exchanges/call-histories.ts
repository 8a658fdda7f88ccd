/** Converts recorded calls to the histories for training, by the form of their API. */
import {
  type ChatCompletionRequest,
  type ChatMessage,
  type CountTokensRequest,
  CountTokensRequestSchema,
  type MessageBlockParam,
  type ResponseInputItem,
  type ResponsesRequest,
  ResponsesRequestSchema,
  type WireExchange,
  type WireHistory,
  type WireOtherExchange,
} from '@trainyard/protocol';

import { placeOfParam, RequestError } from '../../../seams/faults/request-error.ts';
import { compileLargeBodyCheck } from '../../../seams/faults/validation.ts';
import { toAssistantMessage, toCountedChat } from '../messages/request.ts';
import { referenceOf } from '../responses/kept-items.ts';
import { toChatMessages } from '../responses/items.ts';
import { fromResponsesRequest } from '../responses/request.ts';
import { templateVariables } from '../chat/request.ts';
import { mergedVariables } from '../../../seams/chat/written-values.ts';
import { withReadableResults } from '../../../seams/chat/readable-results.ts';
import { messageText } from '../chat/message-text.ts';
import { type Place, TrajectoryFormatError } from '../../../training-data/wire/trajectory-format-error.ts';
import { recordOfAnswer } from '../../../training-data/wire/recorded-choice.ts';
import { isObject } from '../../../seams/json/is-object.ts';

/** One sampled reply of a call, with its context. */
export interface CallHistory {
  readonly history: WireHistory;
  /**
   * Converts a place in the history, which starts with `messages_and_choices` or `tools`, to its place in the
   * call.
   */
  readonly placeInCall: (place: Place) => Place;
}

/** Each choice after the messages of the request: a chat has the same content as a history. */
export function chatHistories({ request, response }: WireExchange): CallHistory[] {
  const { messages: sent, tools = null } = request;
  const messages = withReadableResults(sent);
  const { id } = response;
  // Variables of the prompt's rendering: without a record it is rendered again.
  const variables = mergedVariables(templateVariables(request as ChatCompletionRequest));
  const rendered = Object.keys(variables).length === 0 ? {} : { chat_template_kwargs: variables };
  return response.choices.map((choice, index) => ({
    // Clients that assemble a stream keep only the id of the answer.
    history: {
      messages_and_choices: [...messages, 'record_id' in choice ? choice : { ...choice, id }],
      tools,
      ...rendered,
    },
    placeInCall: ([list, item, ...rest]) => {
      if (list === 'tools') return ['request', 'tools', ...(item === undefined ? [] : [item]), ...rest];
      const isMessage = Number(item) < messages.length;
      return [...(isMessage ? ['request', 'messages', item!] : ['response', 'choices', index]), ...rest];
    },
  }));
}

/**
 * The other forms, whose answers contain less about the sampling than a chat's: it is read from the named
 * record. The messages are those of the request, for display; training uses the record's prompt.
 * @param place of the call in the body
 * @throws {TrajectoryFormatError} for features that this service lacks in that form, and for an answer with
 * unknown tokens
 */
export const OTHER_FORMS: Readonly<
  Record<'completions' | 'responses' | 'messages', (call: WireOtherExchange, place: Place) => CallHistory[]>
> = { completions: completionHistories, responses: responseHistories, messages: messageHistories };

const checkResponsesPrompt = compileLargeBodyCheck(ResponsesRequestSchema);
const checkMessagesPrompt = compileLargeBodyCheck(CountTokensRequestSchema);

function responseHistories({ request, response }: WireOtherExchange, place: Place): CallHistory[] {
  const { messages, tools = null } = translated([...place, 'request'], () => {
    const prompt = withoutReferences(only(request, ['input', 'instructions', 'tools', 'tool_choice']));
    checkResponsesPrompt(prompt);
    return fromResponsesRequest(prompt as ResponsesRequest);
  });
  const record = recordOf(response, place);
  const output = listOf(response, 'output', place) as ResponseInputItem[];
  const turns = translated([...place, 'response'], () => toChatMessages(output));
  return [replyHistory(messages, tools, joined(turns), { ...record, isCut: response?.['status'] === 'incomplete' })];
}

/** Drops references to kept items: the record has the prompt, and the items are shown with their own calls. */
function withoutReferences(prompt: { readonly input?: unknown }): object {
  const { input } = prompt;
  if (!Array.isArray(input)) return prompt;
  return { ...prompt, input: input.filter((item) => !isObject(item) || referenceOf(item) === null) };
}

function messageHistories({ request, response }: WireOtherExchange, place: Place): CallHistory[] {
  const { messages, tools = null } = translated([...place, 'request'], () => {
    const prompt = only(request, Object.keys(CountTokensRequestSchema.properties));
    checkMessagesPrompt(prompt);
    return toCountedChat(prompt as CountTokensRequest);
  });
  const record = recordOf(response, place);
  const content = listOf(response, 'content', place) as MessageBlockParam[];
  const turn = translated([...place, 'response'], () => toAssistantMessage(content, 'content'));
  const isCut = CUT_OFF.has(response?.['stop_reason']);
  return [replyHistory(messages, tools, joined([turn]), { ...record, isCut })];
}

const CUT_OFF: ReadonlySet<unknown> = new Set(['max_tokens', 'model_context_window_exceeded']);

function replyHistory(
  messages: readonly ChatMessage[],
  tools: NonNullable<WireHistory['tools']> | null,
  message: ChatMessage,
  { record_id, isCut }: { record_id: string; isCut: boolean },
): CallHistory {
  const reason = message.tool_calls === undefined ? 'stop' : 'tool_calls';
  const choice = { index: 0, message, finish_reason: isCut ? 'length' : reason, record_id };
  return {
    history: { messages_and_choices: [...messages, choice], tools },
    placeInCall: ([list, item, field]) => {
      if (list === 'tools') return ['request', 'tools'];
      if (Number(item) < messages.length) return ['request'];
      return field === 'record_id' ? ['response', 'record_id'] : ['response'];
    },
  };
}

function joined(turns: readonly ChatMessage[]): ChatMessage {
  const texts = turns.flatMap(({ role, content }) =>
    typeof content === 'string' ? [content] : (content ?? []).map((part) => messageText({ role, content: [part] })),
  );
  const reasoning = turns.flatMap((turn) => turn.reasoning ?? []).join('');
  const calls = turns.flatMap((turn) => turn.tool_calls ?? []);
  return {
    role: 'assistant',
    content: texts.length === 0 ? null : texts.join(''),
    ...(reasoning === '' ? {} : { reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

/** Every choice after its prompt, shown as a message of the user. */
function completionHistories({ request, response }: WireOtherExchange, place: Place): CallHistory[] {
  const prompts = textsOf(request?.['prompt']);
  const { n } = request ?? {};
  const perPrompt = typeof n === 'number' && n >= 1 ? n : 1;
  return listOf(response, 'choices', place).map((choice, index) => {
    const at = [...place, 'response', 'choices', index];
    if (!isObject(choice)) throw invalid(at, 'Input should be a valid dictionary', 'dict_type');
    const number = typeof choice['index'] === 'number' ? choice['index'] : index;
    const prompt = prompts[Math.floor(number / perPrompt)];
    const before = prompt === undefined ? [] : [{ role: 'user', content: prompt }];
    const { text = '', finish_reason: reason, record_id } = choice;
    const tokens = ownTokens(choice);
    if (tokens === null && typeof record_id !== 'string') throw invalid([...at, 'record_id'], NO_TOKENS, 'missing');
    const message = { role: 'assistant', content: typeof text === 'string' ? text : '' };
    const reply = { index: number, message, finish_reason: reason, ...(record_id ? { record_id } : {}), ...tokens };
    return {
      history: { messages_and_choices: [...before, reply], tools: null },
      placeInCall: ([, item, field, ...rest]) => {
        if (Number(item) < before.length) return ['request', 'prompt'];
        const inChoice = field === 'logprobs' ? ['logprobs', 'token_logprobs', ...rest.slice(1, 2)] : [field, ...rest];
        return ['response', 'choices', index, ...inChoice.filter((part) => part !== undefined)];
      },
    };
  });
}

/** Text prompts of a text completion, by their index; undefined for others. */
function textsOf(prompt: unknown): readonly (string | undefined)[] {
  const list: readonly unknown[] = Array.isArray(prompt) && typeof prompt[0] !== 'number' ? prompt : [prompt];
  return list.map((one) => (typeof one === 'string' ? one : undefined));
}

/**
 * Tokens in the form of a chat's choice; null if a text completion lacks some: the ids of its tokens and of
 * its prompt, and a log-probability of each token.
 */
function ownTokens(choice: Record<string, unknown>): object | null {
  const { token_ids: ids, prompt_token_ids: prompt, logprobs } = choice;
  const values = isObject(logprobs) ? logprobs['token_logprobs'] : null;
  if (!Array.isArray(ids) || !Array.isArray(prompt) || !Array.isArray(values)) return null;
  if (ids.length === 0 || prompt.length === 0 || ids.length !== values.length) return null;
  const content = ids.map((id: unknown, index) => ({ token: `token_id:${String(id)}`, logprob: values[index] }));
  return { token_ids: ids, prompt_token_ids: prompt, logprobs: { content } };
}

const NO_TOKENS = 'Input should be the `record_id` of a response of a trained model: this call has no tokens to train';

/** @throws {TrajectoryFormatError} for an answer without a record */
function recordOf(response: WireOtherExchange['response'], place: Place): { record_id: string } {
  const id = response?.['record_id'] ?? recordOfAnswer(response?.['id'], 0);
  if (typeof id === 'string') return { record_id: id };
  throw invalid([...place, 'response', 'record_id'], NO_TOKENS, 'missing');
}

function listOf(response: WireOtherExchange['response'], name: string, place: Place): readonly unknown[] {
  const list = response?.[name];
  if (Array.isArray(list)) return list;
  throw invalid([...place, 'response', name], 'Input should be a valid list', 'list_type');
}

function only(value: Readonly<Record<string, unknown>> | null | undefined, names: readonly string[]): object {
  const members = Object.entries(value ?? {}).filter(([name, member]) => names.includes(name) && member !== null);
  return Object.fromEntries(members);
}

/** Runs `translate`, and reports a fault at its place in the body. */
function translated<Result>(place: Place, translate: () => Result): Result {
  try {
    return translate();
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    const [item] = error.items ?? [];
    if (item !== undefined) throw new TrajectoryFormatError({ ...item, loc: [...place, ...item.loc.slice(1)] });
    throw invalid([...place, ...(error.param ? placeOfParam(error.param) : [])], error.message, 'value_error');
  }
}

function invalid(loc: Place, msg: string, type: string): TrajectoryFormatError {
  return new TrajectoryFormatError({ loc: [...loc], msg, type });
}
