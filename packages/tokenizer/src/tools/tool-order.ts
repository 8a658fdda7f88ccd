const TOOL_KEYS = ['type', 'function'];
const FUNCTION_KEYS = ['name', 'description', 'parameters'];

/**
 * Puts a tool's keys in the order of the API's documentation, then the others; schemas keep their order. Clients
 * order keys differently for sampling and training (for example Python's typed dictionaries), and templates
 * write tools as JSON: the prompt tokens would differ.
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
