import { createInterface } from 'node:readline';

import { type Trainyard, TrainyardApiError, TrainyardConnectionError } from '@trainyard/sdk';

import { oneLine, replyFor } from '../terminal/printable.ts';
import { type Conversation, fieldOf, refusalOfField } from './chat-conversation.ts';
import { servedNameOf } from './find-model.ts';
import { unknownFieldOf } from './unknown-field.ts';

const HELP = `
/set FIELD VALUE   set a field of the requests, e.g. /set temperature 0.7
/unset FIELD       use the default of a field again
/settings          show the fields that are set
/system TEXT       set the system message; without a text, remove it
/model NAME        switch to another model or step, e.g. /model demo/agent:step3
/undo              remove the last question and its reply
/reset             start the conversation again
/exit              end, like Ctrl-D

Ctrl-C stops a reply.
`;

/** Runs a line with a slash. @returns the message to show */
type Handler = (conversation: Conversation, words: string, client: Trainyard) => string | Promise<string>;

const HANDLERS: Readonly<Record<string, Handler>> = {
  help: () => HELP.trim(),
  set: async (conversation, words, client) => {
    const [, name, value] = /^(\w+)[\s=]+(.+)$/s.exec(words) ?? [];
    if (name === undefined || value === undefined) return 'give a field and a value, e.g. /set temperature 0.7';
    const refusal = refusalOfField(name, fieldOf(value)) ?? (await unknownFieldOf(client, [name]));
    if (refusal !== null) return refusal;
    conversation.setField(name, fieldOf(value));
    return `${name} is ${JSON.stringify(fieldOf(value))}`;
  },
  unset: (conversation, name) =>
    conversation.unsetField(name) ? `${name} is back to its default` : `${name} was not set`,
  settings: (conversation) => {
    const { model, system, fields } = conversation;
    const lines = [`model ${model}`, ...(system === null ? [] : [`system ${JSON.stringify(system)}`])];
    return [...lines, ...[...fields].map(([name, value]) => `${name} ${JSON.stringify(value)}`)].join('\n');
  },
  system: (conversation, text) => {
    conversation.setSystem(text === '' ? null : text);
    return text === '' ? 'there is no system message' : 'the system message is set';
  },
  model: async (conversation, name, client) => {
    if (name === '') return `the model is ${conversation.model}`;
    const served = await servedNameOf(client, name);
    const { id } = await client.servedModels.retrieve(served);
    conversation.model = served;
    return `the model is ${id}`;
  },
  undo: (conversation) => (conversation.undo() ? 'removed the last question' : 'no question to remove'),
  reset: (conversation) => {
    conversation.reset();
    return 'the conversation starts again';
  },
};

/** Input of lines, and outputs of replies and of all else. */
export interface ChatStreams {
  readonly input: NodeJS.ReadableStream;
  readonly replies: NodeJS.WritableStream;
  readonly output: NodeJS.WritableStream;
}

/** Runs the conversation until the end of the input or `/exit`. */
export async function talk(
  client: Trainyard,
  conversation: Conversation,
  { input, replies, output }: ChatStreams = { input: process.stdin, replies: process.stdout, output: process.stderr },
): Promise<void> {
  output.write(`${oneLine(conversation.model)}; /help for help, Ctrl-D ends\n`);
  const completer = (line: string): [string[], string] => [
    line.startsWith('/')
      ? [...Object.keys(HANDLERS), 'exit'].map((name) => `/${name}`).filter((name) => name.startsWith(line))
      : [],
    line,
  ];
  const terminal = createInterface({ input, output, prompt: '> ', completer });
  let reply: AbortController | null = null;
  terminal.on('SIGINT', () => {
    if (reply === null) terminal.close();
    else reply.abort(new Error('stopped'));
  });
  // Lines received before the end are still answered.
  let isOpen = true;
  terminal.once('close', () => (isOpen = false));
  terminal.prompt();
  for await (const line of terminal) {
    const text = line.trim();
    if (text === '/exit') break;
    if (text !== '') {
      reply = new AbortController();
      try {
        if (text.startsWith('/')) output.write(`${await handled(client, conversation, text)}\n`);
        else await answer(client, conversation, text, { replies, signal: reply.signal });
      } catch (error) {
        // A refusal, or a service that is away, ends a question but not the conversation.
        if (!(error instanceof TrainyardApiError) && !(error instanceof TrainyardConnectionError)) throw error;
        output.write(`${oneLine(error.message)}\n`);
      } finally {
        reply = null;
      }
    }
    if (isOpen) terminal.prompt();
  }
  terminal.close();
  output.write('\n');
}

async function handled(client: Trainyard, conversation: Conversation, line: string): Promise<string> {
  const [, name = '', words = ''] = /^\/(\w*)\s*(.*)$/s.exec(line) ?? [];
  const handler = Object.hasOwn(HANDLERS, name) ? HANDLERS[name] : undefined;
  return handler === undefined
    ? `unknown command /${name}; /help lists the commands`
    : await handler(conversation, words, client);
}

async function answer(
  client: Trainyard,
  conversation: Conversation,
  text: string,
  { replies, signal }: { replies: NodeJS.WritableStream; signal: AbortSignal },
): Promise<void> {
  conversation.ask(text);
  let content = '';
  try {
    const stream = await client.chat.completions.create({ ...conversation.request(), stream: true }, { signal });
    for await (const chunk of stream) {
      const piece = chunk.choices[0]?.delta.content ?? '';
      content += piece;
      replies.write(replyFor(replies, piece));
    }
  } catch (error) {
    // A stopped reply is kept as far as received.
    if (!signal.aborted) {
      conversation.undo();
      throw error;
    }
  }
  replies.write('\n');
  conversation.answered(content);
}
