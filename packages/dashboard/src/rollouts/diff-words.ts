/** A part of two texts: in both, only in the first, or only in the second. */
export interface DiffPart {
  readonly kind: 'same' | 'removed' | 'added';
  readonly text: string;
}

/** Words of each text that are compared; the rest counts as changed. */
const MAX_WORDS = 2000;

/** Difference of two texts by words and spaces, with as much in common as possible. */
export function diffWords(first: string, second: string): DiffPart[] {
  const left = words(first);
  const right = words(second);
  const start = commonStart(left, right);
  const end = commonEnd(left.slice(start), right.slice(start));
  const middle = longestCommon(left.slice(start, left.length - end), right.slice(start, right.length - end));
  const same = (text: readonly string[]): DiffPart => ({ kind: 'same', text: text.join('') });
  return joined([same(left.slice(0, start)), ...middle, same(end === 0 ? [] : left.slice(-end))]);
}

function words(text: string): string[] {
  return text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
}

function commonStart(left: readonly string[], right: readonly string[]): number {
  let length = 0;
  while (length < left.length && length < right.length && left[length] === right[length]) length += 1;
  return length;
}

function commonEnd(left: readonly string[], right: readonly string[]): number {
  return commonStart(left.toReversed(), right.toReversed());
}

/** Longest common subsequence; the table is read backwards. */
function longestCommon(left: readonly string[], right: readonly string[]): DiffPart[] {
  const removed = (text: readonly string[]): DiffPart => ({ kind: 'removed', text: text.join('') });
  const added = (text: readonly string[]): DiffPart => ({ kind: 'added', text: text.join('') });
  if (left.length > MAX_WORDS || right.length > MAX_WORDS) return [removed(left), added(right)];
  const width = right.length + 1;
  const lengths = new Uint16Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; i--)
    for (let j = right.length - 1; j >= 0; j--)
      lengths[i * width + j] =
        left[i] === right[j]
          ? lengths[(i + 1) * width + j + 1]! + 1
          : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
  const parts: DiffPart[] = [];
  let i = 0;
  let j = 0;
  while (i < left.length && j < right.length) {
    if (left[i] === right[j]) {
      parts.push({ kind: 'same', text: left[i]! });
      i += 1;
      j += 1;
    } else if (lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!) parts.push(removed([left[i++]!]));
    else parts.push(added([right[j++]!]));
  }
  return [...parts, removed(left.slice(i)), added(right.slice(j))];
}

/** Merges neighbours of the same kind. */
function joined(parts: readonly DiffPart[]): DiffPart[] {
  const whole: DiffPart[] = [];
  for (const part of parts) {
    if (part.text === '') continue;
    const last = whole.at(-1);
    if (last?.kind === part.kind) whole[whole.length - 1] = { kind: part.kind, text: last.text + part.text };
    else whole.push(part);
  }
  return whole;
}
