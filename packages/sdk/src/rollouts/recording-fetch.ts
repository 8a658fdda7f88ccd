import type { ChatCompletion, ChatCompletionChunk, ChatMessageBody } from '../index.ts';
import type { RecordedCall } from './conversations.ts';
import { JoinedChunks } from './joined-chunks.ts';

interface ChatRequest {
  model?: string | null;
  messages: ChatMessageBody[];
  tools?: object[] | null;
  stream?: boolean | null;
  logprobs?: boolean | null;
  return_token_ids?: boolean | null;
  n?: number | null;
}

/**
 * A `fetch` that records chats with one model: requests and choices, with the token ids and log-probabilities
 * that it asks for. A request without a model means that one; all other requests pass through.
 *
 * @param isPolicy true if a name means the model
 */
export function recordingFetch(
  fetch: typeof globalThis.fetch,
  policy: string,
  isPolicy: (model: string) => boolean,
  keep: (call: RecordedCall) => void,
): typeof globalThis.fetch {
  return async (input, init) => {
    const url = input instanceof Request ? input.url : String(input);
    const asked = url.endsWith('/chat/completions') && typeof init?.body === 'string' ? init.body : null;
    if (asked === null) return await fetch(input, init);
    const request = JSON.parse(asked) as ChatRequest;
    const model = request.model || policy;
    if (!isPolicy(model)) return await fetch(input, init);
    const body: ChatRequest = { ...request, model, logprobs: true, return_token_ids: true };
    const headers = new Headers(init?.headers);
    headers.delete('content-length');
    const response = await fetch(input, { ...init, headers, body: JSON.stringify(body) });
    if (!response.ok) return response;
    const kept = { messages: body.messages, tools: body.tools ?? null };
    if (body.stream === true) return withRecordedStream(response, (choices) => keep({ ...kept, choices }));
    // Reads the whole answer here, so that it is recorded before the caller can finish.
    const text = await response.text();
    const { choices, prompt_token_ids: promptIds } = JSON.parse(text) as ChatCompletion;
    keep({ ...kept, choices: choices.map((choice) => withPrompt(choice, promptIds)) });
    return new Response(text, response);
  };
}

/** Choice with its prompt's ids, so that training need not render the prompt again. */
function withPrompt<Choice extends object>(choice: Choice, promptIds: readonly number[] | null | undefined): Choice {
  return promptIds === null || promptIds === undefined ? choice : { ...choice, prompt_token_ids: promptIds };
}

/** Same response; its choices are recorded as its last event passes. */
function withRecordedStream(response: Response, keep: (choices: RecordedCall['choices']) => void): Response {
  if (response.body === null) return response;
  const joined = new JoinedChunks();
  const promptIds = new Map<number, readonly number[]>();
  const decoder = new TextDecoder();
  let rest = '';
  const read = (text: string) => {
    const lines = (rest + text).split(/\r?\n/);
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (!line.startsWith('data:')) continue;
      const data = line.slice('data:'.length).trim();
      if (data === '[DONE]') continue;
      const chunk = JSON.parse(data) as ChatCompletionChunk | { error: unknown };
      if ('error' in chunk) continue;
      joined.add(chunk);
      for (const { index } of chunk.choices) if (chunk.prompt_token_ids) promptIds.set(index, chunk.prompt_token_ids);
    }
  };
  const recorder = new TransformStream<Uint8Array, Uint8Array>({
    transform(piece, controller) {
      read(decoder.decode(piece, { stream: true }));
      controller.enqueue(piece);
    },
    flush() {
      read('\n');
      const choices = joined.choices();
      if (choices.length > 0) keep(choices.map((choice) => withPrompt(choice, promptIds.get(choice.index))));
    },
  });
  return new Response(response.body.pipeThrough(recorder), response);
}
