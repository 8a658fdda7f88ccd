/** Limit that tensor names fit in. */
const MAX_CHARACTERS = 200;
const MAX_DEPTH = 4;

/** JSON for messages, cut if long or deep, because files may hold values of any size. */
export function shown(value: unknown): string {
  const text = JSON.stringify(cut(value, MAX_DEPTH)) ?? 'nothing';
  return text.length <= MAX_CHARACTERS ? text : `${text.slice(0, MAX_CHARACTERS)}…`;
}

function cut(value: unknown, depth: number): unknown {
  switch (typeof value) {
    case 'string':
      return value.slice(0, MAX_CHARACTERS);
    case 'bigint':
      return Number(value);
    case 'object':
      break;
    default:
      return value;
  }
  if (value === null) return null;
  if (depth === 0) return '…';
  if (Array.isArray(value)) return value.slice(0, MAX_CHARACTERS).map((item) => cut(item, depth - 1));
  const members = Object.entries(value).slice(0, MAX_CHARACTERS);
  return Object.fromEntries(members.map(([name, member]) => [name.slice(0, MAX_CHARACTERS), cut(member, depth - 1)]));
}
