import { contentText, contentTexts, type TemplateMessage } from '../contract/template-message.ts';
import type { InstructionRole, TurnSupport } from './turn-support.ts';

/** Separator of texts of joined messages. */
const BLANK_LINE = '\n\n';

/**
 * Arranges a conversation in turns that the template writes. Each rule depends only on messages up to its own,
 * so the prompt of a continued conversation starts like the previous one.
 *
 * - Leading instructions become one message if the template does not write several. A developer's becomes
 *   `system` if it has no developer role.
 * - Later instructions stay if the template keeps them, a developer's as `system` if it keeps only those.
 *   Otherwise their text goes to the end of the preceding user turn or tool result; after an assistant turn it
 *   starts the next user turn.
 * - Two consecutive turns of the user, or of the assistant, become one if the template does not write both.
 * - The text of a user turn after a tool result goes to the end of the result if the template does not write it.
 *
 * @param traits read only if the conversation has such turns
 * @returns the messages themselves if nothing changes
 * @throws {TokenizerError} `tokenizer.unsupported_content`
 */
export function arrangeTurns(
  messages: readonly TemplateMessage[],
  traits: { readonly turnSupport: TurnSupport | null },
): readonly TemplateMessage[] {
  if (!hasRareTurns(messages)) return messages;
  const { turnSupport } = traits;
  if (turnSupport === null) throw new Error('a conversation with rare turns requires a probe of the template');
  return withKeptTurns(messages, turnSupport);
}

export function hasRareTurns(messages: readonly TemplateMessage[]): boolean {
  return messages.some(({ role }, index) => {
    if (role === 'developer') return true;
    const previous = messages[index - 1]?.role;
    if (previous === undefined) return false;
    // Tool results become user turns for templates without tools.
    return role === 'system' || (role !== 'tool' && role === (previous === 'tool' ? 'user' : previous));
  });
}

/** @returns the messages themselves if there are none */
export function withResultsAfterCalls(messages: readonly TemplateMessage[]): readonly TemplateMessage[] {
  let numOpen = 0;
  let deferred: TemplateMessage[] = [];
  const arranged: TemplateMessage[] = [];
  const settle = () => {
    arranged.push(...deferred);
    deferred = [];
  };
  for (const message of messages) {
    const numCalls = callsOf(message).length;
    if (numOpen > 0 && isInstruction(message)) deferred.push(message);
    else {
      if (message.role === 'tool') numOpen = Math.max(0, numOpen - 1);
      else if (numCalls > 0) {
        // The next round starts, so missing results will not come. Consecutive calls are one round.
        if (arranged.at(-1)?.role !== 'assistant') {
          numOpen = 0;
          settle();
        }
        numOpen += numCalls;
      } else {
        numOpen = 0;
        settle();
      }
      arranged.push(message);
      if (numOpen === 0) settle();
    }
  }
  settle();
  return arranged.every((message, index) => message === messages[index]) ? messages : arranged;
}

function withKeptTurns(messages: readonly TemplateMessage[], support: TurnSupport): readonly TemplateMessage[] {
  const later = messages.findIndex((message) => !isInstruction(message));
  const numFirst = later < 0 ? messages.length : later;
  const arranged = firstInstructions(messages.slice(0, numFirst), support);
  let hasStarted = false;
  for (const message of messages.slice(numFirst)) {
    const last = arranged.at(-1);
    const kept = isInstruction(message) ? keptInstruction(message, support) : message;
    const { role } = kept ?? { role: 'user' };
    const isFolded = kept === null && (last?.role === 'user' || last?.role === 'tool');
    const isInterrupting = role === 'user' && last?.role === 'tool' && !support.takesUserAfterTool;
    const isSecond = role === last?.role && isTurn(role) && !support.takesTwo[role];
    if (last !== undefined && (isFolded || isInterrupting || isSecond || (hasStarted && role === 'user')))
      arranged[arranged.length - 1] = joined(last, message);
    else {
      arranged.push(kept ?? { role, content: message.content ?? '' });
      hasStarted = kept === null;
    }
  }
  return arranged;
}

function firstInstructions(messages: readonly TemplateMessage[], support: TurnSupport): TemplateMessage[] {
  const known = messages.map((message) =>
    message.role === 'developer' && !support.writesDeveloper ? asSystem(message) : message,
  );
  const [first, ...others] = known;
  const hasForeign = known.some((message, index) => message !== messages[index]);
  const isSeveral = others.every(({ role }) => isInstructionRole(role) && support.writesSeveral[role]);
  return first === undefined || (!hasForeign && isSeveral) ? known : [others.reduce(joined, first)];
}

/** Null if the template keeps no such instruction after a turn. */
function keptInstruction(message: TemplateMessage, { keepsLater }: TurnSupport): TemplateMessage | null {
  if (message.role === 'developer' && keepsLater.developer) return message;
  if (!keepsLater.system) return null;
  return message.role === 'system' ? message : asSystem(message);
}

function asSystem({ content }: TemplateMessage): TemplateMessage {
  return { role: 'system', content: content ?? '' };
}

function joined(first: TemplateMessage, second: TemplateMessage): TemplateMessage {
  const thoughts = [first, second].map(reasoningOf).filter((text) => text !== '');
  const calls = [first, second].flatMap(callsOf);
  return {
    ...first,
    content: joinedContent(first.content, second.content),
    ...(thoughts.length === 0 ? {} : { reasoning: thoughts.join(BLANK_LINE) }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

/** Parts stay parts, so that the template's text of the first content does not change. */
function joinedContent(
  first: TemplateMessage['content'],
  second: TemplateMessage['content'],
): NonNullable<TemplateMessage['content']> {
  const added = contentText(second);
  if (contentText(first) === '') return second ?? '';
  if (added === '') return first ?? '';
  const texts = contentTexts(first);
  const last = `${texts.at(-1)}${BLANK_LINE}${added}`;
  return texts.length === 1 ? last : [...texts.slice(0, -1), last];
}

function callsOf({ role, tool_calls: calls }: TemplateMessage): readonly unknown[] {
  return role === 'assistant' && Array.isArray(calls) ? (calls as unknown[]) : [];
}

function reasoningOf({ role, reasoning, reasoning_content: other }: TemplateMessage): string {
  const text = reasoning ?? other;
  return role === 'assistant' && typeof text === 'string' ? text : '';
}

function isInstruction({ role }: TemplateMessage): boolean {
  return isInstructionRole(role);
}

function isInstructionRole(role: string): role is InstructionRole {
  return role === 'system' || role === 'developer';
}

function isTurn(role: string): role is 'user' | 'assistant' {
  return role === 'user' || role === 'assistant';
}
