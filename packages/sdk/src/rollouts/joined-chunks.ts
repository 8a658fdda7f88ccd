import type { ChatCompletionChoice, ChatCompletionChunk } from '../index.ts';

type Choice = ChatCompletionChoice & Record<string, unknown>;
interface CallPiece {
  index: number;
  id?: string;
  function?: { name?: string | null; arguments?: string };
}

/** Joins the choices of a streamed answer as in the whole answer. */
export class JoinedChunks {
  readonly #choices = new Map<number, Choice>();

  add({ choices }: ChatCompletionChunk): void {
    for (const piece of choices) {
      const choice = this.#choices.get(piece.index) ?? emptyChoice(piece.index);
      this.#choices.set(piece.index, choice);
      const { delta } = piece;
      const { message } = choice;
      if (delta.role !== undefined) message.role = delta.role;
      if (typeof delta.content === 'string') message.content = (message.content ?? '') + delta.content;
      if (typeof delta.reasoning === 'string') message.reasoning = (message.reasoning ?? '') + delta.reasoning;
      for (const call of (delta.tool_calls ?? []) as CallPiece[]) addCall(message, call);
      if (piece.logprobs)
        choice.logprobs = { content: [...(choice.logprobs?.content ?? []), ...piece.logprobs.content] };
      if (piece.token_ids) choice.token_ids = [...(choice.token_ids ?? []), ...piece.token_ids];
      if (piece.finish_reason !== null) choice.finish_reason = piece.finish_reason;
      if (piece.stop_reason !== undefined) choice.stop_reason = piece.stop_reason;
      if (piece.record_id !== undefined) choice.record_id = piece.record_id;
      if (piece.policy_token_spans !== undefined) choice.policy_token_spans = piece.policy_token_spans;
    }
  }

  /** Finished choices by index. */
  choices(): Choice[] {
    return [...this.#choices.values()]
      .filter(({ finish_reason: reason }) => (reason as string | null) !== null)
      .toSorted((a, b) => a.index - b.index);
  }
}

function emptyChoice(index: number): Choice {
  const message = {
    role: 'assistant',
    content: null,
    refusal: null,
    annotations: null,
    audio: null,
    function_call: null,
  };
  return {
    index,
    message: { ...message, reasoning: null },
    logprobs: null,
    finish_reason: null as unknown as Choice['finish_reason'],
    stop_reason: null,
    token_ids: null,
    routed_experts: null,
  };
}

function addCall(message: Choice['message'], { index, id, function: target }: CallPiece): void {
  const calls = (message.tool_calls ??= []);
  const call = (calls[index] ??= { id: id ?? '', type: 'function', function: { name: '', arguments: '' } });
  call.function.name += target?.name ?? '';
  call.function.arguments += target?.arguments ?? '';
}
