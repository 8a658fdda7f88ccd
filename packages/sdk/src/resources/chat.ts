import type { ChatCompletion, ChatCompletionChunk, ChatCompletionRequest } from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';
import { readChunks } from '../http/read-chunks.ts';

/** A message of a conversation; templates may use further keys. */
export interface ChatMessageBody {
  readonly role: string;
  readonly content?: unknown;
  readonly name?: string | null | undefined;
  readonly tool_calls?: readonly object[] | null | undefined;
  readonly tool_call_id?: string | null | undefined;
  readonly reasoning?: string | null | undefined;
  readonly reasoning_content?: string | null | undefined;
}

/** A chat request with every field of vLLM and OpenAI that the service supports. */
export type ChatBody = Omit<ChatCompletionRequest, 'model' | 'messages' | 'tools' | 'stream'> & {
  readonly model: string;
  readonly messages: readonly ChatMessageBody[];
  readonly tools?: readonly object[] | null;
};

export class ChatCompletions {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Samples replies to a conversation.
   *
   * @returns with `stream: true` the chunks as they arrive; leaving the loop early ends the request on the
   *   server
   * @throws {TrainyardApiError} also for an error sent within the stream
   */
  create(body: ChatBody & { readonly stream?: false | null }, options?: CallOptions): Promise<ChatCompletion>;
  create(
    body: ChatBody & { readonly stream: true },
    options?: CallOptions,
  ): Promise<AsyncGenerator<ChatCompletionChunk>>;
  create(
    body: ChatBody & { readonly stream?: boolean | null },
    options?: CallOptions,
  ): Promise<ChatCompletion | AsyncGenerator<ChatCompletionChunk>>;
  async create(
    body: ChatBody & { readonly stream?: boolean | null },
    options: CallOptions = {},
  ): Promise<ChatCompletion | AsyncGenerator<ChatCompletionChunk>> {
    const path = '/v1/chat/completions';
    const call = { ...options, body, repeat: 'always' } as const;
    if (body.stream === true) return readChunks(await this.#connection.stream('POST', path, call), options.signal);
    return await this.#connection.json('POST', path, call);
  }
}

/** Namespace `chat`, as in OpenAI's clients. */
export class Chat {
  readonly completions: ChatCompletions;

  constructor(connection: Connection) {
    this.completions = new ChatCompletions(connection);
  }
}
