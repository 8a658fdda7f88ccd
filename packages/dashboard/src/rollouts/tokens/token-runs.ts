/** Neighbouring tokens of a sequence that are all trained, or all context. */
export interface TokenRun {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
  readonly isTrained: boolean;
  /** Messages of the run, in order; empty if they cannot be told from the tokens. */
  readonly messages: readonly RunMessage[];
}

export interface RunMessage {
  /** `reply`: an assistant message that was sent without sampled tokens, such as an example. */
  readonly role: string;
  /** Reward of the turn, if its choice has one. */
  readonly reward: number | null;
}

/** Why a token is context: the loss has no term for it. */
const MASK_REASONS: Readonly<Record<string, string>> = {
  system: 'instructions',
  developer: 'instructions',
  user: 'input of a user',
  tool: 'result of a tool',
  reply: 'reply without sampled tokens',
};

export function maskReason({ messages }: Pick<TokenRun, 'messages'>): string {
  const roles = [...new Set(messages.map(({ role }) => role))];
  return roles.length === 0
    ? 'prompt, or text between replies'
    : roles.map((role) => MASK_REASONS[role] ?? role).join(', ');
}

/**
 * Divides a sequence into runs. If it has as many trained runs as its history has sampled choices, the messages
 * between two choices belong to the context run between them.
 *
 * @param items `messages_and_choices` of the history
 */
export function tokenRuns(isTrained: readonly boolean[], items: readonly unknown[]): TokenRun[] {
  const bounds: { start: number; end: number; isTrained: boolean }[] = [];
  isTrained.forEach((trained, index) => {
    const last = bounds.at(-1);
    if (last?.isTrained === trained) last.end = index + 1;
    else bounds.push({ start: index, end: index + 1, isTrained: trained });
  });
  const messages = items.map(messageOf);
  const numChoices = messages.filter(({ isSampled }) => isSampled).length;
  const isMatched = numChoices === bounds.filter((run) => run.isTrained).length;
  let at = 0;
  return bounds.map((run): TokenRun => {
    if (!isMatched) return { ...run, messages: [] };
    const from = at;
    if (run.isTrained) at += 1;
    else while (at < messages.length && !messages[at]!.isSampled) at += 1;
    return { ...run, messages: messages.slice(from, at).map(({ role, reward }) => ({ role, reward })) };
  });
}

function messageOf(item: unknown): RunMessage & { readonly isSampled: boolean } {
  const fields = isObject(item) ? item : {};
  const message = isObject(fields['message']) ? fields['message'] : fields;
  const isSampled =
    isObject(fields['logprobs']) || Array.isArray(fields['token_ids']) || typeof fields['record_id'] === 'string';
  const role = typeof message['role'] === 'string' ? message['role'] : 'unknown';
  const reward = typeof fields['reward'] === 'number' ? fields['reward'] : null;
  return { role: role === 'assistant' && !isSampled ? 'reply' : role, reward, isSampled };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
