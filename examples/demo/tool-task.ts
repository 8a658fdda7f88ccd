import type { ChatBody, ChatCompletionChoice } from '@trainyard/sdk';
import type { Rollout } from '@trainyard/sdk/rollouts';

import type { DemoTask } from './task.ts';

type Messages = ChatBody['messages'];

/** A function that the model may call. */
type Tool = {
  readonly type: 'function';
  readonly function: { readonly name: string; readonly parameters: object };
};

/** A question that one call of the tool answers. */
export interface ToolQuestion {
  readonly text: string;
  /**
   * Arguments of the right call, as JSON with a blank after each colon and comma, as models of this family
   * write them.
   */
  readonly rightCall: string;
  /** The tool's answer to it, which the reply must contain. */
  readonly result: string;
  /** Reply in an example conversation. Default: the result. */
  readonly reply?: string;
}

const MAX_TOKENS = 32;

/**
 * A task of two turns: call the tool with the right arguments (half of the reward), then answer with its
 * result (the other half). The tool's answer is context, never trained.
 */
export function toolTask(task: {
  readonly name: string;
  readonly summary: string;
  readonly tool: Tool;
  /** Example conversations: without them a small model never calls the tool, and nothing can be rewarded. */
  readonly examples: readonly ToolQuestion[];
  readonly questions: readonly ToolQuestion[];
  readonly settings: DemoTask['settings'];
  /** True if a call with other arguments than `rightCall` is equally good. Default: none is. */
  readonly isAsGood?: (callArguments: string, question: ToolQuestion) => boolean;
}): DemoTask {
  const { tool, questions } = task;
  const tools = [tool];
  const examples: Messages = task.examples.flatMap((example, index) => [
    asked(example),
    called(`call0000${index + 1}`, tool, example),
    answered(`call0000${index + 1}`, example),
    { role: 'assistant', content: example.reply ?? example.result },
  ]);

  /** Id of the call, if it is a single right call of the tool. */
  function rightCallId(choice: ChatCompletionChoice, question: ToolQuestion): string | null {
    const [only, ...others] = choice.message.tool_calls ?? [];
    if (only === undefined || others.length > 0 || only.function.name !== tool.function.name) return null;
    const { arguments: written } = only.function;
    return written === question.rightCall || task.isAsGood?.(written, question) === true ? only.id : null;
  }

  async function play({ client, model }: Rollout, promptIndex: number, seed: number): Promise<number> {
    const question = questions[promptIndex]!;
    const messages: Messages = [...examples, asked(question)];
    const request = { model, tools, max_tokens: MAX_TOKENS, temperature: 1, seed };
    const first = await client.chat.completions.create({ ...request, messages });
    const choice = first.choices[0]!;
    const callId = rightCallId(choice, question);
    if (callId === null) return 0;
    const history = [...messages, { ...choice.message }, answered(callId, question)] as Messages;
    const second = await client.chat.completions.create({ ...request, messages: history });
    return second.choices[0]!.message.content?.includes(question.result) === true ? 1 : 0.5;
  }

  return {
    name: task.name,
    summary: task.summary,
    numPrompts: questions.length,
    settings: task.settings,
    play,
    sample: async (client, model, promptIndex) => {
      const question = questions[promptIndex]!;
      const messages = [...examples, asked(question)];
      const answer = await client.chat.completions.create({
        model,
        messages,
        tools,
        max_tokens: MAX_TOKENS,
        temperature: 0,
      });
      const { content, tool_calls: calls } = answer.choices[0]!.message;
      return { prompt: question.text, reply: calls ? JSON.stringify(calls[0]?.function) : (content ?? '') };
    },
  };
}

function asked({ text }: ToolQuestion) {
  return { role: 'user' as const, content: text };
}

function called(id: string, tool: Tool, { rightCall }: ToolQuestion) {
  const call = { id, type: 'function' as const, function: { name: tool.function.name, arguments: rightCall } };
  return { role: 'assistant' as const, content: '', tool_calls: [call] };
}

function answered(id: string, { result }: ToolQuestion) {
  return { role: 'tool' as const, tool_call_id: id, content: result };
}
