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
    const items = history['messages_and_choices'];
    const tools = history['tools'];
    return {
      turns: (Array.isArray(items) ? items : []).map(turnOf),
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

/** The messages of a prompt, before the model's first reply. */
export function promptTurns(histories: readonly ConversationHistory[]): readonly Turn[] {
  const turns = histories[0]?.turns ?? [];
  const first = turns.findIndex(({ role }) => role === 'assistant');
  return first < 0 ? turns : turns.slice(0, first);
}

function turnOf(item: unknown, index: number): Turn {
  const outer = isObject(item) ? item : {};
  const isChoice = isObject(outer['message']);
  const message = isChoice ? (outer['message'] as Record<string, unknown>) : outer;
  const calls = message['tool_calls'];
  const hasTokens =
    isObject(outer['logprobs']) || Array.isArray(outer['token_ids']) || typeof outer['record_id'] === 'string';
  return {
    role: typeof message['role'] === 'string' ? message['role'] : isChoice ? 'assistant' : 'unknown',
    content: isObject(item) ? textOf(message['content'] ?? message['refusal']) : JSON.stringify(item),
    reasoning: textOf(message['reasoning'] ?? message['reasoning_content']),
    calls: (Array.isArray(calls) ? calls : []).map(callOf),
    isSampled: (isChoice || message['role'] === 'assistant') && hasTokens,
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
