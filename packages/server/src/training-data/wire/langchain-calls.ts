import { isObject } from '../../seams/json/is-object.ts';

/**
 * Converts tool calls in LangChain's form (`name` and `args`) to that of a chat (`function`). ART's helper
 * for LangGraph sends this form for turns that it did not see sampled, such as examples in the prompt.
 * @param items messages and other items of a history
 * @returns the same list if there is no such call
 */
export function withChatCalls(items: unknown[]): unknown[] {
  return items.some(hasLangChainCall) ? items.map(withChatCall) : items;
}

function withChatCall(item: unknown): unknown {
  if (!hasLangChainCall(item)) return item;
  return { ...item, tool_calls: item.tool_calls.map((call) => (isLangChainCall(call) ? toChatCall(call) : call)) };
}

function hasLangChainCall(item: unknown): item is { tool_calls: unknown[] } {
  if (!isObject(item) || item['role'] !== 'assistant') return false;
  const { tool_calls: calls } = item;
  return Array.isArray(calls) && calls.some(isLangChainCall);
}

interface LangChainCall {
  id?: unknown;
  name: string;
  args: Record<string, unknown>;
}

function isLangChainCall(call: unknown): call is LangChainCall {
  return isObject(call) && call['function'] === undefined && typeof call['name'] === 'string' && isObject(call['args']);
}

function toChatCall({ id, name, args }: LangChainCall) {
  return { id, type: 'function', function: { name, arguments: args } };
}
