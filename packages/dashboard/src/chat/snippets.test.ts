import { expect, test } from 'vitest';

import { snippet, SNIPPET_KINDS } from './snippets.ts';

const BODY = {
  model: 'local/demo/agent:step3',
  messages: [{ role: 'user', content: `It's "quoted" \\ $HOME \`x\`\nüñ🦊 </script>` }],
  temperature: 0.5,
  top_k: 5,
  seed: 1,
  chat_template_kwargs: { enable_thinking: false },
  stop: ['\n\n'],
};

test('no snippet contains a key, and each has the address and streams', () => {
  for (const { kind } of SNIPPET_KINDS) {
    const text = snippet(kind, 'http://127.0.0.1:8420/v1', BODY);
    expect(text).toContain('TRAINYARD_API_KEY');
    expect(text).toContain('http://127.0.0.1:8420/v1');
    expect(text).toMatch(/stream"?[:=] ?(true|True)/);
  }
});

test('a shell passes the body to curl unchanged', () => {
  const [, quoted = ''] = snippet('curl', 'http://127.0.0.1:1/v1', BODY).split('-d ');
  // A shell changes nothing within single quotes.
  const parts = quoted.trim().split("'\\''");
  expect(parts[0]?.startsWith("'") && parts.at(-1)?.endsWith("'")).toBe(true);
  const text = parts.join("'").slice(1, -1);
  expect(parts.join('').slice(1, -1)).not.toContain("'");
  expect(JSON.parse(text)).toEqual({ ...BODY, stream: true });
});

test('fields that OpenAI does not have go into `extra_body` in Python', () => {
  const text = snippet('python', 'http://127.0.0.1:1/v1', BODY);
  const [own = '', extra = ''] = text.split('extra_body=');
  expect(own).toContain('temperature=0.5');
  expect(own).toContain('stop=[');
  expect(own).not.toContain('top_k');
  expect(extra).toContain('"top_k": 5');
  expect(extra).toContain('"enable_thinking": False');
});
