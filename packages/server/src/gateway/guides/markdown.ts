import { html, Html } from '../pages/html.ts';

/**
 * Renders the Markdown of our own documents as HTML: headings, paragraphs, lists, tables, quotes, code, links,
 * pictures, emphasis. Left out: raw HTML, which is shown as text (except `<br>`), reference links, footnotes.
 * Text is escaped, and links lead only to addresses of the service and to `http:`, `https:` and `mailto:`.
 */
export function renderMarkdown(markdown: string): Html {
  return renderBlocks(markdown.split('\n'), new Anchors());
}

/** Names of headings in a document, as GitHub derives them; a repeated one gets a number. */
export class Anchors {
  readonly #numOf = new Map<string, number>();

  /** @param heading as Markdown */
  next(heading: string): string {
    const anchor = plainText(heading)
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(/\s/g, '-');
    const num = this.#numOf.get(anchor) ?? 0;
    this.#numOf.set(anchor, num + 1);
    return num === 0 ? anchor : `${anchor}-${num}`;
  }
}

/** Text of a line of Markdown without its marks. */
export function plainText(markdown: string): string {
  return decoded(
    markdown
      .replaceAll(/!?\[((?:[^[\]]|\[[^\]]*\])*)\]\([^)\s]*\)/g, '$1')
      .replaceAll(/<br>/g, ' ')
      .replaceAll(/\*\*|`|(?<![\w*])\*(?=\S)|(?<=\S)\*(?![\w*])/g, ''),
  );
}

const FENCE = /^(\s*)```/;
const HEADING = /^(#{1,6}) (.+)$/;
const ITEM = /^(\s*)(?:[-*]|\d+\.) +/;
const TABLE_RULE = /^\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?$/;

function renderBlocks(lines: readonly string[], anchors: Anchors): Html {
  const blocks: Html[] = [];
  let index = 0;
  /** Takes lines while they match; the first one always. */
  const take = (isPart: (line: string, at: number) => boolean): string[] => {
    const from = index++;
    while (index < lines.length && isPart(lines[index]!, index)) index++;
    return lines.slice(from, index);
  };
  while (index < lines.length) {
    const line = lines[index]!;
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    const item = ITEM.exec(line);
    if (line.trim() === '') index++;
    else if (fence !== null) {
      const close = lines.findIndex((one, at) => at > index && /^\s*```\s*$/.test(one));
      const end = close === -1 ? lines.length : close;
      blocks.push(renderCode(lines.slice(index + 1, end), fence[1]!));
      index = end + 1;
    } else if (heading !== null) {
      index++;
      blocks.push(renderHeading(heading[1]!.length, heading[2]!, anchors));
    } else if (line.startsWith('|') && TABLE_RULE.test(lines[index + 1]?.trim() ?? ''))
      blocks.push(renderTable(take((next) => next.startsWith('|'))));
    else if (line.startsWith('>')) {
      const quoted = take((next) => next.startsWith('>')).map((one) => one.replace(/^> ?/, ''));
      blocks.push(html`<blockquote>${renderBlocks(quoted, anchors)}</blockquote>`);
    } else if (/^(-{3,}|\*{3,})$/.test(line.trim())) {
      index++;
      blocks.push(html`<hr />`);
    } else if (item !== null) {
      const indent = item[1]!.length;
      const isItem = (one: string) => {
        const found = ITEM.exec(one);
        return found !== null && found[1]!.length >= indent;
      };
      const isOwn = (one = '') => isItem(one) || one.startsWith(' '.repeat(indent + 2));
      // An empty line ends the list, unless it continues after it.
      const taken = take((next, at) => isOwn(next) || (next.trim() === '' ? isOwn(lines[at + 1]) : !startsBlock(next)));
      blocks.push(renderList(taken, indent, anchors));
    } else blocks.push(html`<p>${renderInline(take((next) => !startsBlock(next)).join('\n'))}</p>`);
  }
  return html`${blocks}`;
}

/** True for a line that ends a paragraph. */
function startsBlock(line: string): boolean {
  return line.trim() === '' || FENCE.test(line) || HEADING.test(line) || ITEM.test(line) || /^[|>]/.test(line);
}

function renderHeading(level: number, text: string, anchors: Anchors): Html {
  const id = anchors.next(text);
  return new Html(`<h${level} id="${html`${id}`.source}">${renderInline(text).source}</h${level}>`);
}

/** @param indent of the fence, which its lines share */
function renderCode(lines: readonly string[], indent: string): Html {
  const code = lines.map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line));
  return html`<pre tabindex="0"><code>${code.join('\n')}</code></pre>`;
}

/** @param lines head, rule, rows */
function renderTable(lines: readonly string[]): Html {
  const [head = [], , ...rows] = lines.map(cellsOf);
  // The group can be scrolled by keyboard.
  return html`<div class="wide" tabindex="0" role="group" aria-label="Table">
    <table>
      ${
        head.every((cell) => cell === '')
          ? null
          : html`<thead>
              <tr>
                ${head.map((cell) => (cell === '' ? html`<td></td>` : html`<th>${renderInline(cell)}</th>`))}
              </tr>
            </thead>`
      }
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              ${head.map((_, column) => html`<td>${renderInline(row[column] ?? '')}</td>`)}
            </tr> `,
        )}
      </tbody>
    </table>
  </div>`;
}

/** Cells of a row; a bar in a cell is written `\|`. */
function cellsOf(line: string): string[] {
  const inner = line.trim().replace(/^\|/, '').replace(/\|$/, '');
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll(String.raw`\|`, '|'));
}

/** @param indent of its items; deeper lines belong to the item above */
function renderList(lines: readonly string[], indent: number, anchors: Anchors): Html {
  const items: string[][] = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item !== null && item[1]!.length <= indent + 1) items.push([line.slice(item[0].length)]);
    else items.at(-1)!.push(line);
  }
  const isLoose = lines.includes('');
  const inner = items.map(([first = '', ...rest]) => {
    const least = Math.min(...rest.filter((line) => line.trim() !== '').map((line) => line.search(/\S/)), 100);
    const body = [first, ...rest.map((line) => line.slice(least))];
    const end = isLoose ? 0 : body.findIndex((line, at) => at > 0 && startsBlock(line));
    const text = isLoose ? [] : body.slice(0, end === -1 ? body.length : end);
    return html`<li>${renderInline(text.join('\n'))}${renderBlocks(body.slice(text.length), anchors)}</li>`;
  });
  const start = /^\s*(\d+)\./.exec(lines[0]!)?.[1];
  return start === undefined
    ? html`<ul>
        ${inner}
      </ul>`
    : html`<ol start="${start}">
        ${inner}
      </ol>`;
}

/** One alternative per kind: code, picture or link, address, strong, emphasis, line break, escaped character. */
const INLINE =
  /(`+)(?<code>[\s\S]*?[^`])\1(?!`)|(?<mark>!?)\[(?<words>(?:[^[\]]|\[[^\]]*\])*)\]\((?<target>[^)\s]+)\)|<(?<address>https?:[^>\s]+)>|\*\*(?<strong>[\s\S]+?)\*\*|(?<![\w*])\*(?<emphasis>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])|(?<break><br>)|\\(?<escaped>[!-/:-@[-`{-~])/g;

function renderInline(text: string): Html {
  const parts: (Html | string)[] = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    parts.push(decoded(text.slice(from, match.index)), renderMatch(match.groups!));
    from = match.index + match[0].length;
  }
  return html`${[...parts, decoded(text.slice(from))]}`;
}

function renderMatch(groups: Readonly<Record<string, string | undefined>>): Html | string {
  const { code, mark, words = '', target, address, strong, emphasis, escaped } = groups;
  // Code of one line; a space at each end separates backticks.
  if (code !== undefined) return html`<code>${code.replaceAll('\n', ' ').replace(/^ (.*`.*) $/, '$1')}</code>`;
  if (target !== undefined)
    return mark === '!'
      ? html`<img src="${safeAddress(target)}" alt="${words}" loading="lazy" />`
      : html`<a href="${safeAddress(target)}">${renderInline(words)}</a>`;
  if (address !== undefined) return html`<a href="${address}">${address}</a>`;
  if (strong !== undefined) return html`<strong>${renderInline(strong)}</strong>`;
  if (emphasis !== undefined) return html`<em>${renderInline(emphasis)}</em>`;
  return escaped ?? html`<br />`;
}

/** The address, or `#` for one that could run a script. */
function safeAddress(target: string): string {
  return /^(?:https?:|mailto:)/i.test(target) || !/^[^/?#]*:/.test(target) ? target : '#';
}

const ENTITIES: Readonly<Record<string, string>> = { '&lt;': '<', '&gt;': '>', '&amp;': '&', '&nbsp;': '\u00A0' };

function decoded(text: string): string {
  return text.replaceAll(/&(?:lt|gt|amp|nbsp);/g, (entity) => ENTITIES[entity]!);
}
