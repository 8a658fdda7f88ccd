import { pythonJson } from '../reply/python-json.ts';
import type { TemplateMessage } from '../template-message.ts';

/**
 * Tools for a template that knows none: they are described in a system message, and calls and answers of the conversation are written into
 * its texts, all in the Hermes format.
 *
 * The description goes behind the text of a system message at the start, else into a message of its own. A call is written behind the
 * content of its message. Answers of tools that follow each other become one message of the user, since many templates let roles
 * alternate and know no other.
 *
 * @param tools empty: only calls and answers are written
 */
export function withHermesTools(messages: readonly TemplateMessage[], tools: readonly unknown[]): TemplateMessage[] {
  const written: TemplateMessage[] = [];
  let answers: TemplateMessage | null = null; // the last one written, when it holds answers of tools
  for (const message of messages) {
    if (message.role !== 'tool') {
      answers = null;
      written.push(message.role === 'assistant' ? withWrittenCalls(message) : message);
      continue;
    }
    const answer = around(message.content, '<tool_response>\n', '\n</tool_response>');
    if (answers === null) written.push((answers = { role: 'user', content: answer }));
    else answers.content = around(answers.content, '', '\n', answer);
  }
  return tools.length === 0 ? written : withDescription(written, descriptionOf(tools));
}

function descriptionOf(tools: readonly unknown[]): string {
  return `# Tools

You can call functions to answer the user. These are the functions you have, one JSON object on each line between <tools> and </tools>:
<tools>
${tools.map(pythonJson).join('\n')}
</tools>

To call a function, write a JSON object with its name and its arguments between <tool_call> and </tool_call>, once for each call:
<tool_call>
{"name": <name of the function>, "arguments": <object with the arguments>}
</tool_call>`;
}

const INSTRUCTION_ROLES: readonly unknown[] = ['system', 'developer'];

function withDescription(messages: TemplateMessage[], description: string): TemplateMessage[] {
  const [first, ...rest] = messages;
  if (first === undefined || !INSTRUCTION_ROLES.includes(first.role)) return [{ role: 'system', content: description }, ...messages];
  const isEmpty = first.content === undefined || first.content === null || first.content.length === 0;
  return [{ ...first, content: isEmpty ? description : around(first.content, '', `\n\n${description}`) }, ...rest];
}

function withWrittenCalls(message: TemplateMessage): TemplateMessage {
  const { tool_calls: calls, ...rest } = message;
  if (!Array.isArray(calls) || calls.length === 0) return message;
  const blocks = calls.map((call: unknown) => `<tool_call>\n${callSource(call)}\n</tool_call>`).join('\n');
  const isEmpty = message.content === undefined || message.content === null || message.content.length === 0;
  return { ...rest, role: message.role, content: isEmpty ? blocks : around(message.content, '', `\n${blocks}`) };
}

function callSource(call: unknown): string {
  const { name, arguments: value } = (call as { function?: { name?: unknown; arguments?: unknown } }).function ?? {};
  return `{"name": ${pythonJson(name ?? '')}, "arguments": ${pythonJson(value ?? {})}}`;
}

type Content = TemplateMessage['content'];

/** Content with text in front and behind; parts stay parts. */
function around(content: Content, before: string, after: string, more: Content = ''): NonNullable<Content> {
  if (typeof (content ?? '') === 'string' && typeof (more ?? '') === 'string') return before + (content ?? '') + after + (more ?? '');
  const parts = [content, more].map((side) => (typeof side === 'string' ? [side] : (side ?? [])));
  return [before, ...(parts[0] ?? []), after, ...(parts[1] ?? [])];
}
