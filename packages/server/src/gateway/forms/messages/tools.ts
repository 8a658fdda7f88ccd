import type {
  ChatCompletionRequest,
  CountTokensRequest,
  MessageBlockParam,
  MessageParam,
  MessageTool,
} from '@trainyard/protocol';
import { quoting } from '@trainyard/protocol';

import { sourceTextOf } from '../../../seams/json/source-texts.ts';
import { refuseOtherCallers } from '../shared/allowed-callers.ts';
import { conflict, invalidAt, unsupported } from '../shared/conflict.ts';
import { refuseOtherFields } from '../shared/refuse-other-fields.ts';

type ChatTool = NonNullable<ChatCompletionRequest['tools']>[number];

/**
 * Tools shown to the model: those without deferred loading, and those found by a search of the client.
 * @throws {RequestError} as `toChatRequest`
 */
export function toChatTools(tools: readonly MessageTool[], messages: readonly MessageParam[]): ChatTool[] {
  const all = tools.map((tool, index) => ({ isDeferred: tool.defer_loading === true, tool: toChatTool(tool, index) }));
  if (!all.some(({ isDeferred }) => isDeferred)) return all.map(({ tool }) => tool);
  const found = new Set(messages.flatMap(foundTools));
  return all.filter(({ isDeferred, tool }) => !isDeferred || found.has(tool.function.name)).map(({ tool }) => tool);
}

/** Tools referenced by the results in a message. */
function foundTools({ content }: MessageParam): unknown[] {
  if (typeof content === 'string') return [];
  const parts = content.flatMap(({ content: result }) =>
    Array.isArray(result) ? (result as MessageBlockParam[]) : [],
  );
  return parts.filter((part) => part?.type === 'tool_reference').map((part) => part['tool_name']);
}

/** @throws {RequestError} as `toChatRequest` */
export function toToolChoice({
  tools = null,
  tool_choice: choice = null,
}: CountTokensRequest): Partial<ChatCompletionRequest> {
  if (choice === null) return {};
  refuseOtherFields(choice, ['type', 'name', 'disable_parallel_tool_use'], 'tool_choice');
  const { type, name = null, disable_parallel_tool_use: isSingle } = choice;
  if ((type === 'tool') !== (name !== null))
    throw conflict('tool_choice.name', '`tool_choice.name` requires `type: tool`, and the reverse');
  // The form's default has no effect without tools. A chat has no such default and refuses it, as in vLLM.
  if (type === 'auto' && (tools === null || tools.length === 0)) return {};
  return {
    tool_choice:
      type === 'tool' ? { type: 'function', function: { name: name ?? '' } } : type === 'any' ? 'required' : type,
    ...(isSingle ? { parallel_tool_calls: false } : {}),
  };
}

const TOOL_FIELDS = [
  'name',
  'description',
  'input_schema',
  'type',
  'strict',
  'cache_control',
  'defer_loading',
  // Calls are always streamed as the model writes them.
  'eager_input_streaming',
  'allowed_callers',
  'input_examples',
];

function toChatTool(tool: MessageTool, index: number): ChatTool {
  const place = `tools.${index}`;
  if ((tool.type ?? 'custom') !== 'custom')
    throw unsupported(
      `${place}.type`,
      quoting`the service runs no tools: only \`custom\` tools are supported, got ${tool.type ?? 'custom'}`,
    );
  refuseOtherFields(tool, TOOL_FIELDS, place);
  const { name, description = null, input_schema: parameters, strict = null, allowed_callers: callers = null } = tool;
  if (parameters === undefined) throw invalidAt(`${place}.input_schema`, 'Field required', 'missing');
  refuseOtherCallers(callers, place);
  return { type: 'function', function: { name, description: withExamples(description, tool), parameters, strict } };
}

/** Templates have no examples of inputs, so they are appended to the description. */
function withExamples(description: string | null, { input_examples: examples }: MessageTool): string | null {
  if (!examples || examples.length === 0) return description;
  const shown = ['Examples of its input:', ...examples.map((input) => sourceTextOf(input) ?? JSON.stringify(input))];
  return [...(description ? [description] : []), ...shown].join('\n');
}
