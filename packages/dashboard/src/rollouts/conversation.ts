import { isSampledChoice, promptLength } from '@trainyard/sdk';

/** A tool call of a reply. */
export interface ToolCall {
  readonly name: string;
  /** Indented if it is valid JSON. */
  readonly arguments: string;
}

/** One message of a rollout. */
export interface Turn {
  readonly role: string;
  readonly content: string;
  readonly reasoning: string;
  readonly calls: readonly ToolCall[];
  /** True for sampled replies, which are trained on. */
  readonly isSampled: boolean;
  /** True before the first sampled reply: replies there are examples. */
  readonly isOfPrompt: boolean;
  readonly finishReason: string | null;
  /** Its index in its history. */
  readonly item: number;
}

/** A conversation from start to end; a rollout can have several. */
export interface ConversationHistory {
  readonly turns: readonly Turn[];
  /** Names of the available tools. */
  readonly tools: readonly string[];
}

/** A readable form of a trajectory; unknown content is shown as it was sent. */
export function conversationOf(content: Readonly<Record<string, unknown>>): ConversationHistory[] {
  const more = content['additional_histories'];
  const histories = [content, ...(Array.isArray(more) ? more.filter(isObject) : [])];
  return histories.map((history) => {
    const sent = history['messages_and_choices'];
    const items = Array.isArray(sent) ? sent : [];
    const numOfPrompt = promptLength(items);
    const tools = history['tools'];
    return {
      turns: items.map((item, index) => turnOf(item, index, index < numOfPrompt)),
      tools: (Array.isArray(tools) ? tools : []).map((tool) => nameOf(tool)),
    };
  });
}

/** The model's last message as one text: its content, or its calls. */
export function finalReply(histories: readonly ConversationHistory[]): string {
  const turns = histories.flatMap((history) => history.turns);
  const last = turns.findLast(({ role }) => role === 'assistant');
  return last === undefined ? '' : turnText(last);
}

/** One message as one text: content first, then calls. */
export function turnText({ content, calls }: Turn): string {
  const called = calls.map((call) => `${call.name}(${call.arguments})`);
  return [content, ...called].filter((text) => text !== '').join('\n');
}

/** The messages of a prompt, before the first sampled reply. */
export function promptTurns(histories: readonly ConversationHistory[]): readonly Turn[] {
  return (histories[0]?.turns ?? []).filter(({ isOfPrompt }) => isOfPrompt);
}

/** The question of a prompt: its last user message, or its last message. */
export function questionOf(prompt: readonly Turn[]): Turn | undefined {
  return prompt.findLast(({ role }) => role === 'user') ?? prompt.at(-1);
}

/**
 * Number of leading messages that are not the prompt's own: those that it shares with all others, and its
 * examples. Its last message is always its own.
 */
export function numSharedTurns(prompt: readonly Turn[], others: readonly (readonly Turn[])[]): number {
  const numOfExamples = prompt.findLastIndex(({ role }) => role === 'assistant') + 1;
  const numOfAll = others.length === 0 ? 0 : commonStart([prompt, ...others]).length;
  return Math.max(0, Math.min(Math.max(numOfExamples, numOfAll), prompt.length - 1));
}

/** The leading messages that all have in common. */
export function commonStart(all: readonly (readonly Turn[])[]): readonly Turn[] {
  const [first = [], ...others] = all;
  const end = first.findIndex((turn, index) => !others.every((other) => isEqual(other[index], turn)));
  return end < 0 ? first : first.slice(0, end);
}

function isEqual(one: Turn | undefined, other: Turn): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function turnOf(item: unknown, index: number, isOfPrompt: boolean): Turn {
  const outer = isObject(item) ? item : {};
  const isChoice = isObject(outer['message']);
  const message = isChoice ? (outer['message'] as Record<string, unknown>) : outer;
  const calls = message['tool_calls'];
  return {
    role: typeof message['role'] === 'string' ? message['role'] : isChoice ? 'assistant' : 'unknown',
    content: isObject(item) ? textOf(message['content'] ?? message['refusal']) : JSON.stringify(item),
    reasoning: textOf(message['reasoning'] ?? message['reasoning_content']),
    calls: (Array.isArray(calls) ? calls : []).map(callOf),
    isSampled: isSampledChoice(item),
    isOfPrompt,
    finishReason: typeof outer['finish_reason'] === 'string' ? outer['finish_reason'] : null,
    item: index,
  };
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (content === null || content === undefined) return '';
  if (!Array.isArray(content)) return JSON.stringify(content, null, 2);
  return content
    .map((part) => (isObject(part) && typeof part['text'] === 'string' ? part['text'] : `[${partName(part)}]`))
    .join('');
}

function partName(part: unknown): string {
  return isObject(part) && typeof part['type'] === 'string' ? part['type'] : 'part';
}

function callOf(call: unknown): ToolCall {
  const called = isObject(call) && isObject(call['function']) ? call['function'] : {};
  const written = called['arguments'];
  return {
    name: nameOf(call),
    arguments: typeof written === 'string' ? pretty(written) : JSON.stringify(written ?? {}),
  };
}

function nameOf(tool: unknown): string {
  const described = isObject(tool) && isObject(tool['function']) ? tool['function'] : tool;
  return isObject(described) && typeof described['name'] === 'string' ? described['name'] : 'unknown';
}

function pretty(json: string): string {
  try {
    const value: unknown = JSON.parse(json);
    const short = JSON.stringify(value);
    return short.length <= 60 ? short : JSON.stringify(value, null, 2);
  } catch {
    return json;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
