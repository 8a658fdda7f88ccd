import type { ChatCompletionChoice, ChatMessageBody, WireTrajectory } from '../index.ts';

type History = NonNullable<WireTrajectory['additional_histories']>[number];
type Item = History['messages_and_choices'][number];

/** A call of a rollout and its answer. */
export interface RecordedCall {
  readonly messages: readonly ChatMessageBody[];
  readonly tools: readonly object[] | null;
  readonly choices: readonly (ChatCompletionChoice & Record<string, unknown>)[];
}

interface Conversation {
  /** Messages as sent, and choices as sampled. */
  readonly items: Item[];
  /** Prefix of the conversation's next request. */
  readonly turns: string[];
  readonly tools: string;
  readonly toolList: readonly object[] | null;
}

/**
 * Groups the calls of a rollout into conversations: a call whose messages start with an earlier call and its
 * sampled turn continues that one; any other starts a new one. So each sampled turn is trained once, at the
 * place where it was sampled.
 */
export class Conversations {
  readonly #conversations: Conversation[] = [];

  add({ messages, tools, choices }: RecordedCall): void {
    const toolsKey = JSON.stringify(tools ?? []);
    const turns = messages.map(turnOf);
    const earlier = this.#longestPrefix(turns, toolsKey);
    const before = earlier === null ? [] : earlier.items;
    const numKnown = earlier === null ? 0 : earlier.turns.length;
    if (earlier !== null) this.#conversations.splice(this.#conversations.indexOf(earlier), 1);
    for (const choice of choices)
      this.#conversations.push({
        items: [...before, ...messages.slice(numKnown).map((message) => ({ ...message })), { ...choice }],
        turns: [...turns, turnOf(choice.message as ChatMessageBody)],
        tools: toolsKey,
        toolList: tools,
      });
  }

  /** Histories for a trajectory; empty without a call. */
  histories(): Pick<WireTrajectory, 'messages_and_choices' | 'tools' | 'additional_histories'> {
    const [first, ...others] = this.#conversations.map(({ items, toolList }): History => ({
      messages_and_choices: items,
      ...(toolList === null ? {} : { tools: toolList.map((tool) => ({ ...tool })) }),
    }));
    return { messages_and_choices: [], ...first, additional_histories: others };
  }

  #longestPrefix(turns: readonly string[], tools: string): Conversation | null {
    let longest: Conversation | null = null;
    for (const conversation of this.#conversations) {
      const isPrefix =
        conversation.tools === tools &&
        conversation.turns.length < turns.length &&
        conversation.turns.every((turn, index) => turn === turns[index]);
      if (isPrefix && conversation.turns.length > (longest?.turns.length ?? 0)) longest = conversation;
    }
    return longest;
  }
}

/**
 * Key that is equal for equivalent turns: clients omit null values, and return a reply with more or fewer
 * keys.
 */
function turnOf({ role, content, name, tool_calls: calls, tool_call_id: callId }: ChatMessageBody): string {
  const text = content === null || content === undefined ? '' : content;
  const called = (calls ?? []).map((call) => {
    const { id, function: target } = call as { id?: string; function?: { name?: string; arguments?: string } };
    return [id, target?.name, target?.arguments];
  });
  return JSON.stringify([role, text, name ?? null, called, callId ?? null]);
}
