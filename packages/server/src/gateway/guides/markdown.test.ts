import { expect, test } from 'vitest';

import { documentParts, renderMarkdown } from './markdown.ts';

const rendered = (markdown: string) => renderMarkdown(markdown).source.replaceAll(/>\s+</g, '><').trim();

test('blocks and marks of our documents become HTML', () => {
  expect(rendered('## A `code` title\n\nSome *soft* and **loud `x`** words,\nin [two](/guides/a#b) lines.')).toBe(
    '<h2 id="a-code-title">A <code>code</code> title</h2>' +
      '<p>Some <em>soft</em> and <strong>loud <code>x</code></strong> words,\nin <a href="/guides/a#b">two</a> lines.</p>',
  );
  expect(rendered('- one\n  more\n- two\n  1. inner\n\nafter')).toBe(
    '<ul><li>one\nmore</li><li>two\n<ol><li>inner</li></ol></li></ul><p>after</p>',
  );
  expect(rendered('1. one\n\n   ```sh\n   a\n\n     b\n   ```\n\n2. two')).toBe(
    '<ol><li><p>one</p><pre tabindex="0"><code>a\n\n  b\n</code></pre></li><li><p>two</p></li></ol>',
  );
  expect(rendered('| a | b |\n|---|---|\n| `x\\|y` | 1<br>2 |\n')).toContain(
    '<tr><th>a</th><th>b</th></tr></thead><tbody><tr><td><code>x|y</code></td><td>1<br>\n2</td></tr>',
  );
});

test('names with stars and underscores stay as they are', () => {
  expect(rendered('2 * 3 * 4, `a*b*c`, learning_rate_x, \\*')).toBe(
    '<p>2 * 3 * 4, <code>a*b*c</code>, learning_rate_x, *</p>',
  );
});

test.each([
  ['<script>alert(1)</script>', '<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>'],
  ['<img src=x onerror=alert(1)>', '<p>&lt;img src=x onerror=alert(1)&gt;</p>'],
  ['[a](javascript:alert(1))', '<p>[a](javascript:alert(1))</p>'],
  ['[a](JaVaScRiPt:x)', '<p>[a](JaVaScRiPt:x)</p>'],
  ['![a](data:text/html,x)', '<p>![a](data:text/html,x)</p>'],
  ['[a](/x"onclick="y)', '<p><a href="/x%22onclick=%22y">a</a></p>'],
  ['## "><b>', '<h2 id="b">&quot;&gt;&lt;b&gt;</h2>'],
  ['&lt;b&gt; &amp;lt;', '<p>&lt;b&gt; &amp;lt;</p>'],
])('%s runs and adds nothing', (markdown, expected) => expect(rendered(markdown)).toBe(expected));

test('an unclosed fence ends with the document', () => {
  expect(rendered('```\ncode\n')).toBe('<pre tabindex="0"><code>code\n</code></pre>');
});

test('a document has parts from heading to heading, without marks, and equal headings have numbered anchors', () => {
  expect(
    documentParts(
      'Start *here*.\n\n## Set `up`\n\n| a | **b** |\n|---|---|\n| 1 | [two](/x) |\n\n```sh\nrun\n```\n\n## Set up',
    ),
  ).toEqual([
    { heading: null, anchor: null, text: 'Start here.' },
    { heading: 'Set up', anchor: 'set-up', text: 'a · b\n1 · two\nrun' },
    { heading: 'Set up', anchor: 'set-up-1', text: '' },
  ]);
});
