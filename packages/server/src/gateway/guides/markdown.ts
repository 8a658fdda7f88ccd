import GithubSlugger from 'github-slugger';
import MarkdownIt from 'markdown-it';

import { Html } from '../pages/html.ts';

/** A part of a document, from one heading to the next. */
export interface DocumentPart {
  /** Its heading as plain text; null for the start of the document. */
  readonly heading: string | null;
  /** Name of the heading in the page; null for the start of the document. */
  readonly anchor: string | null;
  /** Plain text with a line for each paragraph, row and code block. */
  readonly text: string;
}

/**
 * Raw HTML is shown as text, except `<br>`. Links with addresses that could run a script stay text. Headings are
 * named as GitHub names them.
 */
const parser = new MarkdownIt({ html: false });
type Token = ReturnType<typeof parser.parse>[number];

parser.inline.ruler.before('autolink', 'break', (state, silent) => {
  if (!state.src.startsWith('<br>', state.pos)) return false;
  if (!silent) state.push('hardbreak', 'br', 0);
  state.pos += '<br>'.length;
  return true;
});
parser.core.ruler.push('anchors', ({ tokens }) => {
  const slugger = new GithubSlugger();
  for (const [index, token] of tokens.entries())
    if (token.type === 'heading_open') token.attrSet('id', slugger.slug(textOf(tokens[index + 1]!)));
});
parser.core.ruler.push('empty heads', (state) => {
  state.tokens = withoutEmptyHeads(state.tokens);
});
// A wide table and a long line of code can be scrolled by keyboard.
parser.renderer.rules['table_open'] = () =>
  '<div class="wide" tabindex="0" role="group" aria-label="Table">\n<table>\n';
parser.renderer.rules['table_close'] = () => '</table>\n</div>\n';
parser.renderer.rules['fence'] = (tokens, index) =>
  `<pre tabindex="0"><code>${parser.utils.escapeHtml(tokens[index]!.content)}</code></pre>\n`;
const image = parser.renderer.rules['image']!;
parser.renderer.rules['image'] = (tokens, index, ...rest) => {
  tokens[index]!.attrSet('loading', 'lazy');
  return image(tokens, index, ...rest);
};

/** Renders the Markdown of our own documents as HTML. */
export function renderMarkdown(markdown: string): Html {
  return new Html(parser.render(markdown));
}

/** Parts of a document, the start first. */
export function documentParts(markdown: string): DocumentPart[] {
  const tokens = parser.parse(markdown, {});
  const parts: { heading: string | null; anchor: string | null; lines: string[] }[] = [
    { heading: null, anchor: null, lines: [] },
  ];
  let cells: string[] = [];
  for (const [index, token] of tokens.entries()) {
    const { lines } = parts.at(-1)!;
    const before = tokens[index - 1]?.type;
    if (token.type === 'heading_open')
      parts.push({ heading: textOf(tokens[index + 1]!), anchor: String(token.attrGet('id')), lines: [] });
    else if (token.type === 'fence') lines.push(token.content);
    else if (token.type === 'tr_close') {
      lines.push(cells.join(' · '));
      cells = [];
    } else if (token.type !== 'inline' || before === 'heading_open') continue;
    else if (before === 'td_open' || before === 'th_open') cells.push(textOf(token));
    else lines.push(textOf(token));
  }
  return parts.map(({ lines, ...part }) => ({ ...part, text: lines.join('\n').trim() }));
}

/** Text of a paragraph, heading or cell without its marks. */
function textOf({ children }: Token): string {
  return (children ?? [])
    .map(({ type, content }) => (type === 'softbreak' || type === 'hardbreak' ? ' ' : content))
    .join('');
}

/** A head without text goes; single empty head cells become ordinary ones, because they name no column. */
function withoutEmptyHeads(tokens: readonly Token[]): Token[] {
  const kept: Token[] = [];
  let headStart = 0;
  let hasText = false;
  for (const [index, token] of tokens.entries()) {
    kept.push(token);
    if (token.type === 'thead_open') {
      headStart = kept.length - 1;
      hasText = false;
    } else if (token.type === 'th_open') {
      const isEmpty = tokens[index + 1]!.content === '';
      hasText ||= !isEmpty;
      if (isEmpty) token.tag = tokens[index + 2]!.tag = 'td';
    } else if (token.type === 'thead_close' && !hasText) kept.length = headStart;
  }
  return kept;
}
