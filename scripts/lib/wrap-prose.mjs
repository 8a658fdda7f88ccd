/** Maximum columns of prose in Markdown. Tables, headings, code and unbreakable lines may be longer. */
export const PROSE_COLUMNS = 160;

const FENCE = /^\s*(```|~~~)/;
const NOT_PROSE = /^\s*(\||#|>|<|\[[^\]]+\]:|---)/;
const LIST_ITEM = /^(\s*)([-*+]|\d+\.)(\s+)/;
/** These would be markup at the start of a line. */
const MARKUP_WORD = /^([-*+]|\d+[.)]|#+|>.*|\|.*|={2,}|-{2,}|<.*)$/;

/**
 * Wraps too long prose in a Markdown text: from the first long line of a paragraph to its end. The rest stays
 * unchanged.
 *
 * @param {string} text
 * @returns {string}
 */
export function wrapProse(text) {
  /** @type {string[]} */
  const wrapped = [];
  /** @type {string[]} */
  let paragraph = [];
  let isCode = false;
  const flush = () => {
    wrapped.push(...wrapParagraph(paragraph));
    paragraph = [];
  };
  for (const line of text.split('\n')) {
    const isFence = FENCE.test(line);
    if (isFence || isCode || line.trim() === '' || NOT_PROSE.test(line)) {
      flush();
      wrapped.push(line);
      if (isFence) isCode = !isCode;
      continue;
    }
    if (LIST_ITEM.test(line)) flush();
    paragraph.push(line);
  }
  flush();
  return wrapped.join('\n');
}

/** @param {readonly string[]} lines of one paragraph or list item */
function wrapParagraph(lines) {
  const first = lines.findIndex((line) => line.length > PROSE_COLUMNS);
  if (first === -1) return lines;
  const rest = lines.slice(first);
  const [head = ''] = rest;
  const item = LIST_ITEM.exec(head);
  const opening = item?.[0] ?? /^\s*/.exec(head)?.[0] ?? '';
  const indent = ' '.repeat(opening.length);
  const words = wordsOf(
    rest
      .map((line) => line.trim())
      .join(' ')
      .slice(item === null ? 0 : opening.trim().length),
  );
  /** @type {string[]} */
  const wrapped = [];
  let line = opening;
  let isEmpty = true;
  for (const word of words) {
    const longer = isEmpty ? line + word : `${line} ${word}`;
    if (isEmpty || longer.length <= PROSE_COLUMNS || MARKUP_WORD.test(word)) {
      line = longer;
    } else {
      wrapped.push(line);
      line = indent + word;
    }
    isEmpty = false;
  }
  return [...lines.slice(0, first), ...wrapped, line];
}

/** Words between white space; a code span is one word. @param {string} text */
function wordsOf(text) {
  return text.match(/(?:`[^`]*`|[^\s`])+|`+/g) ?? [];
}
