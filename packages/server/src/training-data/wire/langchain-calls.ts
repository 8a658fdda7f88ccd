import { isObject } from '../../seams/json/is-object.ts';

/**
 * Messages whose calls of tools are all as a chat has them. Turns of an agent that ART's helper for LangGraph did not see sampled, examples in the prompt for
 * instance, come with calls in LangChain's own form: `name` and `args` where a chat has `function`.
 *
 * @param items messages, and whatever else a history holds
 * @returns the same list where there is no such call
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
