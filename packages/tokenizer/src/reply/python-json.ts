// A whole string, a comma with the line break after it, or another line break.
const PRETTY_PRINTED = /("(?:[^"\\]|\\.)*")|(,)\n *|\n */g;

/** JSON in Python's spacing (`{"a": 1, "b": [2]}`), as chat templates write it. */
export function pythonJson(value: unknown): string {
  return JSON.stringify(value, null, 1).replace(
    PRETTY_PRINTED,
    (_, string: string | undefined, comma: string | undefined) => string ?? (comma === undefined ? '' : ', '),
  );
}
