export const SNIPPET_KINDS = [
  { kind: 'curl', text: 'curl' },
  { kind: 'node', text: 'openai for Node.js' },
  { kind: 'python', text: 'openai for Python' },
  { kind: 'sdk', text: '@trainyard/sdk' },
] as const;

export type SnippetKind = (typeof SNIPPET_KINDS)[number]['kind'];

/** Arguments of `create` in openai for Python; all others go into `extra_body`. */
const PYTHON_ARGUMENTS: ReadonlySet<string> = new Set([
  'model',
  'messages',
  'frequency_penalty',
  'logit_bias',
  'logprobs',
  'max_completion_tokens',
  'max_tokens',
  'n',
  'parallel_tool_calls',
  'presence_penalty',
  'reasoning_effort',
  'response_format',
  'seed',
  'stop',
  'stream',
  'stream_options',
  'temperature',
  'tool_choice',
  'tools',
  'top_logprobs',
  'top_p',
  'user',
]);

/**
 * The same request as a program that prints the reply as it arrives. The program reads the key from
 * `TRAINYARD_API_KEY`.
 *
 * @param baseUrl ends in `/v1`
 * @param body without `stream`
 */
export function snippet(kind: SnippetKind, baseUrl: string, body: Readonly<Record<string, unknown>>): string {
  return WRITERS[kind](baseUrl, { ...body, stream: true });
}

type Writer = (baseUrl: string, body: Readonly<Record<string, unknown>>) => string;

const WRITERS: Readonly<Record<SnippetKind, Writer>> = {
  curl: (baseUrl, body) =>
    [
      `curl -sSN ${shellQuoted(`${baseUrl}/chat/completions`)} \\`,
      '  -H "Authorization: Bearer $TRAINYARD_API_KEY" \\',
      "  -H 'Content-Type: application/json' \\",
      `  -d ${shellQuoted(JSON.stringify(body, null, 2))}`,
      '',
    ].join('\n'),
  node: (baseUrl, body) => `import OpenAI from 'openai';

const client = new OpenAI({ baseURL: ${JSON.stringify(baseUrl)}, apiKey: process.env.TRAINYARD_API_KEY });
const stream = await client.chat.completions.create(${JSON.stringify(body, null, 2)});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? '');
process.stdout.write('\\n');
`,
  python: (baseUrl, body) => {
    const own = Object.entries(body).filter(([name]) => PYTHON_ARGUMENTS.has(name));
    const extra = Object.entries(body).filter(([name]) => !PYTHON_ARGUMENTS.has(name));
    const lines = own.map(([name, value]) => `    ${name}=${pythonLiteral(value, 1)},`);
    if (extra.length > 0) lines.push(`    extra_body=${pythonLiteral(Object.fromEntries(extra), 1)},`);
    return `import os

from openai import OpenAI

client = OpenAI(base_url=${pythonLiteral(baseUrl, 0)}, api_key=os.environ["TRAINYARD_API_KEY"])
stream = client.chat.completions.create(
${lines.join('\n')}
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
`;
  },
  sdk: (baseUrl, body) => `import { Trainyard } from '@trainyard/sdk';

// The key is read from TRAINYARD_API_KEY.
const client = new Trainyard({ baseUrl: ${JSON.stringify(baseUrl)} });
const stream = await client.chat.completions.create(${JSON.stringify(body, null, 2)});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '');
process.stdout.write('\\n');
`,
};

/** Quotes a text for a POSIX shell. */
function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function pythonLiteral(value: unknown, depth: number): string {
  if (value === null || value === undefined) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'string') return pythonText(value);
  if (typeof value === 'number') return JSON.stringify(value);
  const indent = '    '.repeat(depth + 1);
  const end = `\n${'    '.repeat(depth)}`;
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]';
    return `[\n${value.map((one) => `${indent}${pythonLiteral(one, depth + 1)},`).join('\n')}${end}]`;
  }
  const entries = Object.entries(value as object);
  if (entries.length === 0) return '{}';
  return `{\n${entries.map(([name, one]) => `${indent}${pythonText(name)}: ${pythonLiteral(one, depth + 1)},`).join('\n')}${end}}`;
}

/**
 * A JSON string is also a Python literal: JSON escapes lone surrogates the same way and leaves other
 * characters as they are.
 */
function pythonText(text: string): string {
  return JSON.stringify(text);
}
