/**
 * True for a reply with a record, log-probabilities or token ids of its sampling. Other assistant messages are
 * examples or other context.
 *
 * @param item of `messages_and_choices`
 */
export function isSampledChoice(item: unknown): boolean {
  if (!isReply(item)) return false;
  const { record_id: record, token_ids: ids, logprobs } = item;
  return (typeof record === 'string' && record !== '') || isFilled(ids) || logprobEntriesOf(logprobs).length > 0;
}

/**
 * Number of items before the first sampled choice: the prompt. Without one, as in logs of plain messages, the
 * prompt ends before the first choice, or before the last assistant message.
 *
 * @param items `messages_and_choices` of a trajectory
 */
export function promptLength(items: readonly unknown[]): number {
  const sampled = items.findIndex(isSampledChoice);
  if (sampled >= 0) return sampled;
  const choice = items.findIndex((item) => isReply(item) && isObject(item['message']));
  if (choice >= 0) return choice;
  const last = items.findLastIndex(isReply);
  return last >= 0 ? last : items.length;
}

/** True for a choice, or an assistant message. */
export function isReply(item: unknown): item is Record<string, unknown> {
  return isObject(item) && (isObject(item['message']) || item['role'] === 'assistant');
}

/** Entries of a choice's `logprobs`, of its content or its refusal; empty if there are none. */
export function logprobEntriesOf(logprobs: unknown): readonly unknown[] {
  if (!isObject(logprobs)) return [];
  const { content, refusal } = logprobs;
  return isFilled(content) ? content : isFilled(refusal) ? refusal : [];
}

function isFilled(list: unknown): list is readonly unknown[] {
  return Array.isArray(list) && list.length > 0;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
