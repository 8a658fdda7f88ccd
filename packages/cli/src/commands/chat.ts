import type { ChatCompletion, Trainyard } from '@trainyard/sdk';
import type { Command } from 'commander';

import { CommandError, UsageError } from '../terminal/command-error.ts';
import { interruption } from '../terminal/interrupted.ts';
import { newCommand, withExamples } from '../terminal/new-command.ts';
import { replyFor } from '../terminal/printable.ts';
import { printJson } from '../terminal/print-json.ts';
import {
  addServiceOptions,
  type JsonOption,
  serviceClient,
  type ServiceOptions,
} from '../terminal/service-connection.ts';
import { Conversation, fieldOf, refusalOfField } from './chat-conversation.ts';
import { talk } from './chat-session.ts';
import { servedNameOf } from './find-model.ts';
import { unknownFieldOf } from './unknown-field.ts';

interface ChatOptions extends ServiceOptions, JsonOption {
  readonly message?: string;
  readonly system?: string;
  readonly set?: readonly [name: string, value: unknown][];
}

/** `trainyard chat`: talks with a model, line by line or once. */
export function chatCommand(): Command {
  const command = newCommand('chat', 'talk with a model')
    .description(
      'Talks with a model, line by line; /help lists the commands. With -m, or with text on stdin, it asks once and prints the reply.',
    )
    .argument('[MODEL]', '[[ENTITY/]PROJECT/]NAME[:stepN], or a base model (default: the first base model)')
    .option('-m, --message <TEXT>', 'ask this once and exit; - reads stdin')
    .option('--system <TEXT>', 'system message')
    .option('--set <FIELD=VALUE>', 'field of the request, e.g. temperature=0.7; repeatable', addField);
  withExamples(command, [
    'trainyard chat',
    'trainyard chat demo/short-answers:step3 --set temperature=0',
    'trainyard chat -m "Name a colour." --json',
    'git diff | trainyard chat --system "Write a commit message."',
  ]);
  return addServiceOptions(command, 'the response of the API; only with -m or stdin').action(
    async (name: string | undefined, options: ChatOptions) => {
      const text = await messageOf(options);
      if (text === null && options.json === true) throw new UsageError('--json needs -m, or text on stdin');
      const client = serviceClient(options);
      const fields = options.set ?? [];
      const unknown = await unknownFieldOf(
        client,
        fields.map(([field]) => field),
      );
      if (unknown !== null) throw new UsageError(`--set: ${unknown}`);
      const model = name === undefined ? await baseModel(client) : await servedNameOf(client, name);
      const conversation = new Conversation(model);
      // Check the model before the user writes a question.
      if (text === null && name !== undefined) await client.servedModels.retrieve(model);
      if (options.system !== undefined) conversation.setSystem(options.system);
      for (const [field, value] of fields) conversation.setField(field, value);
      if (text === null) await talk(client, conversation);
      else await askOnce(client, conversation, text, options.json === true);
    },
  );
}

async function baseModel(client: Trainyard): Promise<string> {
  const [first] = (await client.servedModels.list()).data;
  if (first === undefined) throw new CommandError('the service serves no model; run "trainyard doctor" to see why');
  return first.id;
}

/** Returns null to start a conversation without a message. */
async function messageOf({ message }: ChatOptions): Promise<string | null> {
  if (message !== undefined && message !== '-') return message;
  if (message === undefined && process.stdin.isTTY) return null;
  let text = '';
  for await (const piece of process.stdin.setEncoding('utf8')) text += String(piece);
  if (text.trim() === '') throw new UsageError('no question: pass -m TEXT, or text on stdin');
  return text.trimEnd();
}

async function askOnce(client: Trainyard, conversation: Conversation, text: string, isJson: boolean): Promise<void> {
  const signal = interruption();
  conversation.ask(text);
  if (isJson) {
    printJson((await client.chat.completions.create(conversation.request(), { signal })) satisfies ChatCompletion);
    return;
  }
  const stream = await client.chat.completions.create({ ...conversation.request(), stream: true }, { signal });
  for await (const chunk of stream)
    process.stdout.write(replyFor(process.stdout, chunk.choices[0]?.delta.content ?? ''));
  process.stdout.write('\n');
}

function addField(text: string, fields: readonly [string, unknown][] = []): [string, unknown][] {
  const [, name, value] = /^([a-z_]+)=(.*)$/s.exec(text) ?? [];
  if (name === undefined || value === undefined)
    throw new UsageError(`--set takes FIELD=VALUE such as temperature=0.7, got ${JSON.stringify(text)}`);
  const refusal = refusalOfField(name, fieldOf(value));
  if (refusal !== null) throw new UsageError(`--set: ${refusal}`);
  return [...fields, [name, fieldOf(value)]];
}
