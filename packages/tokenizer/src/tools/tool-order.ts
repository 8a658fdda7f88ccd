const TOOL_KEYS = ['type', 'function'];
const FUNCTION_KEYS = ['name', 'description', 'parameters'];

/**
 * A tool with its keys in the order of the API's documentation, others behind them as they came. Templates write tools as JSON, and clients
 * send the same tool in one order for sampling and in another for training (typed dictionaries of Python do): without this, training
 * would put other tokens in front of a reply than it was sampled behind. Schemas keep the order of their keys.
 */
export function inToolOrder(tool: unknown): unknown {
  if (!isRecord(tool)) return tool;
  const { function: description } = tool;
  const ordered = withKeysFirst(tool, TOOL_KEYS);
  return isRecord(description) ? { ...ordered, function: withKeysFirst(description, FUNCTION_KEYS) } : ordered;
}

function withKeysFirst(record: Record<string, unknown>, keys: readonly string[]): Record<string, unknown> {
  const first = keys.filter((key) => Object.hasOwn(record, key));
  const others = Object.keys(record).filter((key) => !keys.includes(key));
  return Object.fromEntries([...first, ...others].map((key) => [key, record[key]]));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Map);
}
