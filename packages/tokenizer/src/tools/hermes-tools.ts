import { rewriteJsonText } from '../reply/json-reader.ts';
import { pythonJson } from '../reply/python-json.ts';
import { readArguments } from '../contract/arguments-text.ts';
import { contentText, type TemplateMessage } from '../contract/template-message.ts';

const INSTRUCTION_ROLES: readonly unknown[] = ['system', 'developer'];

/**
 * Adds tools for a template without tool support, in the Hermes format: a system message describes them, and
 * calls and answers become text.
 *
 * The description follows the text of a leading system message, or is a new message. A call follows its
 * message's content. Consecutive tool answers become one user message, because many templates alternate user and
 * assistant.
 *
 * @param tools empty: only calls and answers are written
 * @throws {TokenizerError} `tokenizer.unsupported_content`
 */
export function withHermesTools(messages: readonly TemplateMessage[], tools: readonly unknown[]): TemplateMessage[] {
  const written: TemplateMessage[] = [];
  let answers: string[] = []; // of the last message written
  for (const message of messages) {
    if (message.role === 'tool') {
      if (answers.length > 0) written.pop();
      answers.push(`<tool_response>\n${contentText(message.content)}\n</tool_response>`);
      written.push({ role: 'user', content: answers.join('\n') });
    } else {
      answers = [];
      written.push(message.role === 'assistant' ? withWrittenCalls(message) : message);
    }
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

function withDescription(messages: TemplateMessage[], description: string): TemplateMessage[] {
  const [first, ...rest] = messages;
  if (first === undefined || !INSTRUCTION_ROLES.includes(first.role)) {
    return [{ role: 'system', content: description }, ...messages];
  }
  const text = contentText(first.content);
  return [{ ...first, content: text === '' ? description : `${text}\n\n${description}` }, ...rest];
}

function withWrittenCalls(message: TemplateMessage): TemplateMessage {
  const { tool_calls: calls, ...rest } = message;
  if (!Array.isArray(calls) || calls.length === 0) return message;
  const blocks = calls.map((call: unknown) => `<tool_call>\n${callSource(call)}\n</tool_call>`);
  const text = contentText(message.content);
  return { ...rest, role: message.role, content: [...(text === '' ? [] : [text]), ...blocks].join('\n') };
}

function callSource(call: unknown): string {
  const { name, arguments: value } = (call as { function?: { name?: unknown; arguments?: unknown } }).function ?? {};
  return `{"name": ${pythonJson(name ?? '')}, "arguments": ${argumentsSource(value)}}`;
}

/** Keeps text without an object, as for other templates. */
function argumentsSource(value: unknown): string {
  if (typeof value !== 'string') return pythonJson(value ?? {});
  if (value.trim() === '') return '{}';
  const found = readArguments(value);
  return found === null ? value : rewriteJsonText(found.source);
}
