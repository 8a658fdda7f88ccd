import { parsePythonJson } from './python-values.ts';

export interface ArgumentsText {
  readonly source: string;
  readonly parsed: Record<string, unknown>;
}

/**
 * Reads the arguments of a call: JSON of an object, or a JSON string of such text, which some models write and
 * clients send back.
 *
 * @returns null if the text holds no object
 */
export function readArguments(text: string): ArgumentsText | null {
  return argumentsOf(text, (source) => JSON.parse(source) as unknown);
}

/** Like {@link readArguments}, with numbers that only Python reads. @see parsePythonJson */
export function readPythonArguments(text: string): ArgumentsText | null {
  return argumentsOf(text, parsePythonJson);
}

function argumentsOf(text: string, parse: (text: string) => unknown): ArgumentsText | null {
  let source: unknown = text;
  // Each text is shorter than the one that contains it.
  while (typeof source === 'string') {
    const parsed = parsedOrUndefined(source, parse);
    if (isObject(parsed)) return { source, parsed };
    source = parsed;
  }
  return null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Number);
}

function parsedOrUndefined(text: string, parse: (text: string) => unknown): unknown {
  try {
    return parse(text);
  } catch {
    return undefined; // not JSON
  }
}
