import type { ReplyReading } from '@trainyard/generation';
import { type ChatCompletionRequest, quoting } from '@trainyard/protocol';

import { conflict, named } from '../shared/conflict.ts';
import { outputConstraint } from '../shared/output-constraint.ts';
import { someTools, toolsTextOf } from '../../../seams/chat/written-values.ts';

type ToolFields = Pick<ChatCompletionRequest, 'tools' | 'tool_choice' | 'parallel_tool_calls' | 'structured_outputs'>;

/** @throws {RequestError} `request.conflict` */
export function checkTools(body: ToolFields): void {
  const choice = body.tool_choice ?? null;
  if (choice === null || choice === 'none') return;
  const tools = someTools(body.tools);
  // `auto` with an empty list is valid.
  if (choice === 'auto' && body.tools) return;
  if (tools === null)
    throw conflict(named('tool_choice'), quoting`${named('tool_choice')} is only allowed with ${named('tools')}`);
  if (typeof choice !== 'object') return;
  const { name } = choice.function;
  if (!tools.some((tool) => tool.function.name === name)) {
    throw conflict(
      named('tool_choice.function.name'),
      quoting`${named('tool_choice')} has the function \`${name}\`, which is not in ${named('tools')}`,
    );
  }
  if (body.structured_outputs)
    throw conflict(
      named('structured_outputs'),
      quoting`${named('structured_outputs')} is not allowed with a ${named('tool_choice')} that names a function`,
    );
}

/** Parsing of the reply. Tools without a `tool_choice` are optional for the model. */
export function replyReading(body: ToolFields): ReplyReading {
  const { tool_choice: choice } = body;
  const tools = someTools(body.tools);
  const parallelToolCalls = body.parallel_tool_calls ?? true;
  if (!tools) return { tools: null, toolsText: null, toolChoice: 'none', parallelToolCalls };
  const toolChoice =
    typeof choice === 'object' && choice !== null ? { name: choice.function.name } : (choice ?? 'auto');
  return { tools, toolsText: toolsTextOf(tools), toolChoice, parallelToolCalls };
}

/** Field with the constraint on the reply. */
export function constraintField(body: ToolFields & Pick<ChatCompletionRequest, 'response_format'>): string {
  const { toolChoice } = replyReading(body);
  if (toolChoice === 'required' || typeof toolChoice === 'object') return 'tools';
  return outputConstraint(body)?.field ?? 'structured_outputs';
}

/** Form of reported tool calls; `none`: they stay text. */
export type ReportedToolChoice = 'none' | 'auto' | 'required' | 'named';

export function answerToolChoice(body: ToolFields): ReportedToolChoice {
  const { toolChoice } = replyReading(body);
  return typeof toolChoice === 'object' ? 'named' : toolChoice;
}
