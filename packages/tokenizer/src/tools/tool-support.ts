import { isExhausted } from '../contract/template-exhausted.ts';
import { prepareMessage, type ContentFormat, type TemplateMessage } from '../contract/template-message.ts';

/** A chat template's support for tools. */
export interface ToolSupport {
  /** Writes given tools into the prompt. */
  writesTools: boolean;
  /** Writes calls of earlier turns. */
  writesCalls: boolean;
}

// Only letters, so that no escaping changes them; Mistral's templates need ids of 9 characters.
const TOOL_NAME = 'probetoolwhichdoesnotexist';
const CALL_NAME = 'probecallwhichdoesnotexist';
const TOOL = {
  type: 'function',
  function: {
    name: TOOL_NAME,
    description: 'a probe',
    parameters: { type: 'object', properties: { x: { type: 'string', description: 'x' } }, required: ['x'] },
  },
};
const CALL = { id: 'probecall', type: 'function', function: { name: CALL_NAME, arguments: { x: 'x' } } };
const SYSTEM = { role: 'system', content: 'x' };
const USER = { role: 'user', content: 'x' };
const TURN = [
  USER,
  { role: 'assistant', content: 'x', tool_calls: [CALL] },
  { role: 'tool', content: 'x', tool_call_id: CALL.id },
];
// Some templates ignore system messages, and some put tools only in them.
const TOOL_PROBES = [[SYSTEM, USER], [USER]];
const CALL_PROBES = [TURN, [...TURN, { role: 'assistant', content: 'x' }, USER], TURN.slice(0, 2)];

/**
 * Finds tool support by rendering: a template writes tools if a made-up name appears in its text. One that
 * refuses every probe is judged by mentions of `tools` or `tool_calls` in its source.
 *
 * @throws if `run` took too many steps
 * @param run throws if the template refuses the variables
 */
export function probeToolSupport(
  source: string,
  format: ContentFormat,
  run: (variables: Readonly<Record<string, unknown>>) => string,
): ToolSupport {
  const hasName = (name: string, conversations: readonly (readonly TemplateMessage[])[]): boolean | null => {
    let answer: boolean | null = null;
    for (const conversation of conversations) {
      const messages = conversation.map((message) => prepareMessage(message, format));
      try {
        if (
          run({
            messages,
            tools: [TOOL],
            documents: null,
            add_generation_prompt: true,
            bos_token: '',
            eos_token: '',
          }).includes(name)
        )
          return true;
        answer = false;
      } catch (error) {
        if (isExhausted(error)) throw error;
        // Another conversation may work.
      }
    }
    return answer;
  };
  return {
    writesTools: hasName(TOOL_NAME, TOOL_PROBES) ?? /\btools\b/.test(source),
    writesCalls: hasName(CALL_NAME, CALL_PROBES) ?? /\btool_calls\b/.test(source),
  };
}
