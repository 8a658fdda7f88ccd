import { holdsPythonValues, pythonFloat } from '../contract/python-values.ts';

// A whole string, a comma with the line break after it, or another line break.
const PRETTY_PRINTED = /("(?:[^"\\]|\\.)*")|(,)\n *|\n */g;

/**
 * Formats JSON in Python's spacing (`{"a": 1, "b": [2]}`), as chat templates do; also for values of
 * {@link parsePythonValues}.
 */
export function pythonJson(value: unknown): string {
  if (holdsPythonValues(value)) return writtenJson(value);
  return JSON.stringify(value, null, 1).replace(
    PRETTY_PRINTED,
    (_, string: string | undefined, comma: string | undefined) => string ?? (comma === undefined ? '' : ', '),
  );
}

function writtenJson(value: unknown): string {
  if (typeof value === 'bigint') return value.toString();
  if (value instanceof Number) return pythonFloat(value.valueOf());
  if (Array.isArray(value)) return `[${value.map((item) => writtenJson(item ?? null)).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const all = value instanceof Map ? [...(value as Map<string, unknown>)] : Object.entries(value);
  const entries = all.filter(([, member]) => member !== undefined);
  return `{${entries.map(([key, member]) => `${JSON.stringify(key)}: ${writtenJson(member)}`).join(', ')}}`;
}
