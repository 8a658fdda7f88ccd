import Type, { type Static } from 'typebox';
import type { ValidationItem } from '../shape/errors.ts';
import { optionalNullable } from '../shape/schema.ts';

/**
 * Parts that count as text. The key of the text is the type's name for `refusal` and `thinking`, else `text`.
 */
export const TEXT_PART_TYPES = ['text', 'input_text', 'output_text', 'refusal', 'thinking'] as const;

/**
 * One part of a message's content. A plain string in the list is a text part. The template gets unknown keys.
 */
export const ContentPartSchema = Type.Union([Type.String(), Type.Object({ type: Type.Optional(Type.String()) })]);

export const ToolCallSchema = Type.Object(
  {
    id: Type.String(),
    type: Type.Literal('function'),
    function: Type.Object({ name: Type.String(), arguments: Type.String() }),
  },
  { title: 'ToolCall' },
);
export type ToolCall = Static<typeof ToolCallSchema>;

/** A message of any role. Roles outside OpenAI's list are accepted: the template decides. Unknown keys are accepted. */
export const ChatMessageSchema = Type.Object(
  {
    role: Type.String(),
    content: Type.Optional(Type.Union([Type.String(), Type.Array(ContentPartSchema), Type.Null()])),
    name: optionalNullable(Type.String()),
    tool_calls: optionalNullable(Type.Array(ToolCallSchema)),
    tool_call_id: optionalNullable(Type.String()),
    reasoning: optionalNullable(Type.String()),
    reasoning_content: optionalNullable(Type.String()),
  },
  { title: 'ChatMessage' },
);
export type ChatMessage = Static<typeof ChatMessageSchema>;

/**
 * Finds messages with `content: null`, which is allowed only for roles whose reply may have no text; omitting
 * `content` is allowed for every role.
 */
export function messageFaults(messages: readonly ChatMessage[]): ValidationItem[] {
  const faults: ValidationItem[] = [];
  messages.forEach((message, index) => {
    if (message.content !== null || message.role === 'assistant' || message.role === 'function') return;
    faults.push({
      loc: ['body', 'messages', index, 'content'],
      msg: `Input should be a valid string or list: null is accepted only for the roles assistant and function, not ${message.role}`,
      type: 'string_type',
      input: null,
    });
  });
  return faults;
}
