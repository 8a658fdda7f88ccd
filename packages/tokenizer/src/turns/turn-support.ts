import { isExhausted } from '../contract/template-exhausted.ts';
import { prepareMessage, type ContentFormat, type TemplateMessage } from '../contract/template-message.ts';

export type InstructionRole = 'system' | 'developer';

/** Treatment of turns that are rare in chats. */
export interface TurnSupport {
  /** Writes a leading developer message as such. */
  readonly writesDeveloper: boolean;
  /** Writes several leading instructions, by the role of the later ones. */
  readonly writesSeveral: Readonly<Record<InstructionRole, boolean>>;
  /** Writes later instructions in their place, by role. */
  readonly keepsLater: Readonly<Record<InstructionRole, boolean>>;
  /** Writes two consecutive turns of a role. */
  readonly takesTwo: Readonly<Record<'user' | 'assistant', boolean>>;
  /** Writes a user turn after a tool result, as in interrupted sessions. */
  readonly takesUserAfterTool: boolean;
}

type Run = (variables: Readonly<Record<string, unknown>>) => string;

/** Quoted role name in templates that treat developers specially. Others print any role's name. */
const NAMES_DEVELOPER = /(['"])developer\1/;

// Only letters, so that no escaping changes them; Mistral's templates need ids of 9 characters.
const markOf = (index: number): string => `qzqturn${'abcdefghij'[index]}qzq`;
const CALL = { id: 'probecall', type: 'function', function: { name: 'probe', arguments: { x: 'x' } } };
const TOOL = {
  type: 'function',
  function: {
    name: 'probe',
    description: 'x',
    parameters: { type: 'object', properties: { x: { type: 'string', description: 'x' } }, required: ['x'] },
  },
};

/** Roles of a conversation; `call` is an assistant turn with a call. `at` is the turn under test. */
interface Shape {
  readonly roles: readonly string[];
  readonly at: number;
}

const shape = (before: string, tried: string, after = ''): Shape => {
  const roles = before.split(' ').filter(Boolean);
  return { roles: [...roles, tried, ...after.split(' ').filter(Boolean)], at: roles.length };
};

const laterShapes = (role: InstructionRole): Shape[] =>
  ['', 'system '].flatMap((first) => [
    shape(`${first}user`, role),
    shape(`${first}user`, role, 'assistant user'),
    shape(`${first}user assistant`, role),
    shape(`${first}user assistant`, role, 'user'),
    shape(`${first}user assistant user`, role),
    shape(`${first}user call tool`, role),
    shape(`${first}user call tool`, role, 'assistant user'),
  ]);

const USER_AFTER_TOOL: readonly Shape[] = ['', 'system '].flatMap((first) => [
  shape(`${first}user call tool`, 'user'),
  shape(`${first}user call tool`, 'user', 'assistant user'),
  shape(`${first}user call tool assistant user call tool`, 'user'),
]);

/**
 * Finds turn support by rendering: a template keeps a turn if its text appears once and in order, and the text
 * before it stays unchanged, in every conversation that it writes without that turn. A template that writes none
 * gets the turns unchanged.
 *
 * @throws if `run` took too many steps
 * @param run throws if the template refuses the variables
 */
export function probeTurnSupport(source: string, format: ContentFormat, run: Run): TurnSupport {
  const keeps = (shapes: readonly Shape[]) => shapes.every((tried) => isKept(tried, format, run));
  // A user turn may rewrite earlier ones: templates drop thoughts of earlier turns.
  const writes = (shapes: readonly Shape[]) =>
    shapes.every((tried) => isKept(tried, format, run, { mayRewrite: true }));
  const writesDeveloper = NAMES_DEVELOPER.test(source) && keeps([shape('', 'developer', 'user')]);
  return {
    writesDeveloper,
    writesSeveral: {
      system: keeps([shape('system', 'system', 'user')]),
      developer:
        writesDeveloper && keeps([shape('system', 'developer', 'user'), shape('developer', 'developer', 'user')]),
    },
    keepsLater: {
      system: keeps(laterShapes('system')),
      developer: writesDeveloper && keeps(laterShapes('developer')),
    },
    takesTwo: {
      user: keeps([shape('user', 'user'), shape('system user', 'user'), shape('user assistant user', 'user')]),
      assistant: keeps([shape('user assistant', 'assistant'), shape('user assistant', 'assistant', 'user')]),
    },
    takesUserAfterTool: writes(USER_AFTER_TOOL),
  };
}

/** Also true if the template does not write the conversation without the turn. */
function isKept({ roles, at }: Shape, format: ContentFormat, run: Run, { mayRewrite = false } = {}): boolean {
  const all = roles.map((role, index) => ({ message: toMessage(role, markOf(index), format), role, index }));
  const without = all.filter(({ index }) => index !== at);
  const render = (turns: typeof all): string | null => {
    try {
      const tools = roles.includes('call') ? [TOOL] : null;
      const messages = turns.map(({ message }) => message);
      return run({ messages, tools, documents: null, add_generation_prompt: true, bos_token: '', eos_token: '' });
    } catch (error) {
      if (isExhausted(error)) throw error;
      return null;
    }
  };
  // Templates may drop the text of a turn with calls.
  const marks = (turns: typeof all) => turns.filter(({ role }) => role !== 'call').map(({ index }) => markOf(index));
  const plain = render(without);
  if (plain === null || !isInOrder(plain, marks(without))) return true;
  const text = render(all);
  if (text === null || !isInOrder(text, marks(all))) return false;
  if (mayRewrite) return true;
  const before = marks(all.slice(0, at)).at(-1);
  if (before === undefined) return true;
  const end = text.indexOf(before) + before.length;
  // Later turns may rewrite earlier ones, for example a user turn if thoughts before it are dropped.
  return [plain, render(all.slice(0, at))].some((other) => other?.slice(0, end) === text.slice(0, end));
}

/** True if each mark appears once, in order. */
function isInOrder(text: string, marks: readonly string[]): boolean {
  const places = marks.map((mark) => text.indexOf(mark));
  return places.every(
    (place, index) => place > (places[index - 1] ?? -1) && text.lastIndexOf(marks[index] ?? '') === place,
  );
}

function toMessage(role: string, content: string, format: ContentFormat): TemplateMessage {
  const message: TemplateMessage =
    role === 'call'
      ? { role: 'assistant', content, tool_calls: [CALL] }
      : { role, content, ...(role === 'tool' ? { tool_call_id: CALL.id, name: 'probe' } : {}) };
  return prepareMessage(message, format);
}
