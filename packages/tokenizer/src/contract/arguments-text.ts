/**
 * Reads the arguments of a call: the JSON text of an object, or a JSON text of that text, which some models write and their clients send back.
 *
 * @returns the object and the text it was read from; null if the text holds no object
 */
export function readArguments(text: string): { source: string; parsed: Record<string, unknown> } | null {
  let source: unknown = text;
  // Each text is shorter than the one that holds it.
  while (typeof source === 'string') {
    const parsed = parseJson(source);
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed))
      return { source, parsed: parsed as Record<string, unknown> };
    source = parsed;
  }
  return null;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // no JSON
  }
}
