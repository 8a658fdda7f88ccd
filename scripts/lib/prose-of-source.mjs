/** A string with fewer blanks than this is a name, a path or a code, not prose. */
const BLANKS_OF_PROSE = 3;
/** Code before a string that is a message of a chat or a prompt: data for a model, not prose for a reader. */
const BEFORE_DATA = /\b(?:content|prompt|input)['"]?\s*[:=]\s*$/;

/**
 * Prose of a source file: its comments, and its strings of four words and more, with blanks for the values in
 * templates. Data for models is left out: messages, prompts, and questions.
 *
 * @param {string} text of a TypeScript or JavaScript file
 * @returns {string[]} one string for each comment line run or literal
 */
export function proseOfSource(text) {
  /** @type {string[]} */
  const found = [];
  let place = 0;
  while (place < text.length) {
    const two = text.slice(place, place + 2);
    const one = two[0] ?? '';
    let end = place + 1;
    if (two === '//') {
      end = endOf(text, '\n', place);
      found.push(text.slice(place + 2, end));
    } else if (two === '/*') {
      end = endOf(text, '*/', place + 2);
      found.push(text.slice(place + 2, end).replaceAll(/^\s*\*/gm, ' '));
    } else if (one === "'" || one === '"' || one === '`') {
      end = endOfLiteral(text, place, one);
      const literal = text.slice(place + 1, end - 1).replaceAll(/\$\{[^}]*\}/g, ' ');
      const isData = literal.endsWith('?') || BEFORE_DATA.test(text.slice(Math.max(0, place - 20), place));
      if (!isData && literal.split(' ').length > BLANKS_OF_PROSE) found.push(literal);
    } else if (one === '/' && /[(,=:[!&|?{};\n]\s*$/.test(text.slice(Math.max(0, place - 20), place))) {
      end = endOfPattern(text, place);
    }
    place = end;
  }
  return found;
}

/** @param {string} text @param {string} mark @param {number} from */
function endOf(text, mark, from) {
  const index = text.indexOf(mark, from);
  return index === -1 ? text.length : index;
}

/** @param {string} text @param {number} start @param {string} quote */
function endOfLiteral(text, start, quote) {
  for (let place = start + 1; place < text.length; place += 1) {
    if (text[place] === '\\') place += 1;
    else if (text[place] === quote) return place + 1;
    else if (text[place] === '\n' && quote !== '`') return place;
  }
  return text.length;
}

/** @param {string} text @param {number} start of a regular expression */
function endOfPattern(text, start) {
  let isClass = false;
  for (let place = start + 1; place < text.length && text[place] !== '\n'; place += 1) {
    if (text[place] === '\\') place += 1;
    else if (text[place] === '[') isClass = true;
    else if (text[place] === ']') isClass = false;
    else if (text[place] === '/' && !isClass) return place + 1;
  }
  return start + 1;
}
