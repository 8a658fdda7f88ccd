import type {
  Completion,
  CompletionChunk,
  CompletionRequest,
  CountInputTokensRequest,
  CountTokens,
  CountTokensRequest,
  DeletedResponse,
  DetokenizeRequest,
  DetokenizeResponse,
  GenerateTokensAnswer,
  GenerateTokensChunk,
  GenerateTokensRequest,
  InputItemPage,
  InputItemQuery,
  InputTokens,
  LoadLoraAdapterRequest,
  Message,
  MessageEvent,
  MessagesRequest,
  Response as ModelResponse,
  ResponseEvent,
  ResponsesRequest,
  TokenizeRequest,
  TokenizeResponse,
  TokenizerInfo,
  TokenizerInfoQuery,
  UnloadLoraAdapterRequest,
} from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';
import { path } from '../http/query.ts';
import { readChunks } from '../http/read-chunks.ts';

/** One form of sampling requests: an answer, or with `stream: true` its events as they arrive. */
class SamplingForm<Request extends object, Answer, Event> {
  readonly #connection: Connection;
  readonly #path: string;

  constructor(connection: Connection, path: string) {
    this.#connection = connection;
    this.#path = path;
  }

  create(body: Omit<Request, 'stream'> & { stream?: false | null }, options?: CallOptions): Promise<Answer>;
  create(body: Omit<Request, 'stream'> & { stream: true }, options?: CallOptions): Promise<AsyncGenerator<Event>>;
  async create(
    body: Omit<Request, 'stream'> & { stream?: boolean | null },
    options: CallOptions = {},
  ): Promise<Answer | AsyncGenerator<Event>> {
    const call = { ...options, body, repeat: 'always' } as const;
    if (body.stream === true)
      return readChunks(await this.#connection.stream('POST', this.#path, call), options.signal);
    return await this.#connection.json('POST', this.#path, call);
  }
}

/** Continuations of texts, without a template. */
export class Completions extends SamplingForm<CompletionRequest, Completion, CompletionChunk> {
  constructor(connection: Connection) {
    super(connection, '/v1/completions');
  }
}

/** Conversations in the form of OpenAI's Responses API. */
export class Responses extends SamplingForm<ResponsesRequest, ModelResponse, ResponseEvent> {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    super(connection, '/v1/responses');
    this.#connection = connection;
  }

  /** Length of the prompt, rendered by the model's template. */
  async countInputTokens(body: CountInputTokensRequest, options: CallOptions = {}): Promise<InputTokens> {
    const call = { ...options, body, repeat: 'always' } as const;
    return await this.#connection.json('POST', '/v1/responses/input_tokens', call);
  }

  /** Returns a kept answer, for a background one its present state. @throws 404 if the id is not kept */
  async retrieve(id: string, options: CallOptions = {}): Promise<ModelResponse> {
    return await this.#connection.json('GET', pathOf(id), options);
  }

  /** Cancels a background answer. Returns one that has ended unchanged. */
  async cancel(id: string, options: CallOptions = {}): Promise<ModelResponse> {
    return await this.#connection.json('POST', `${pathOf(id)}/cancel`, { ...options, repeat: 'always' });
  }

  /** Deletes a kept answer and its input. */
  async delete(id: string, options: CallOptions = {}): Promise<DeletedResponse> {
    return await this.#connection.json('DELETE', pathOf(id), { ...options, repeat: 'refused' });
  }

  /** Items of a kept answer's prompt, including those of earlier turns. */
  async inputItems(id: string, query: InputItemQuery = {}, options: CallOptions = {}): Promise<InputItemPage> {
    return await this.#connection.json('GET', `${pathOf(id)}/input_items`, { ...options, query });
  }
}

function pathOf(id: string): string {
  return path`/v1/responses/${id}`;
}

/** Conversations in the form of the Anthropic API. */
export class Messages extends SamplingForm<MessagesRequest, Message, MessageEvent> {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    super(connection, '/v1/messages');
    this.#connection = connection;
  }

  /** Length of the prompt, rendered by the model's template. */
  async countTokens(body: CountTokensRequest, options: CallOptions = {}): Promise<CountTokens> {
    const call = { ...options, body, repeat: 'always' } as const;
    return await this.#connection.json('POST', '/v1/messages/count_tokens', call);
  }
}

/** Token ids in, token ids out. */
export class TokenGenerations extends SamplingForm<GenerateTokensRequest, GenerateTokensAnswer, GenerateTokensChunk> {
  constructor(connection: Connection) {
    super(connection, '/inference/v1/generate');
  }
}

/** Converts texts and conversations to token ids, and back. */
export class Tokens {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  async tokenize(body: TokenizeRequest, options: CallOptions = {}): Promise<TokenizeResponse> {
    return await this.#connection.json('POST', '/v1/tokenize', { ...options, body, repeat: 'always' });
  }

  async detokenize(body: DetokenizeRequest, options: CallOptions = {}): Promise<DetokenizeResponse> {
    return await this.#connection.json('POST', '/v1/detokenize', { ...options, body, repeat: 'always' });
  }

  /** Tokenizer as described by the model's `tokenizer_config.json`. */
  async info(query: TokenizerInfoQuery = {}, options: CallOptions = {}): Promise<TokenizerInfo> {
    return await this.#connection.json('GET', '/v1/tokenizer_info', { ...options, query });
  }
}

/** Imported adapters under names, as in vLLM. Repeated only if the service refused the first request. */
export class LoraAdapters {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Serves an imported adapter under a name. @returns the service's message */
  async load(body: LoadLoraAdapterRequest, options: CallOptions = {}): Promise<string> {
    return await this.#connection.text('POST', '/v1/load_lora_adapter', { ...options, body, repeat: 'refused' });
  }

  /** Removes the name; the adapter stays. @returns the service's message */
  async unload(body: UnloadLoraAdapterRequest, options: CallOptions = {}): Promise<string> {
    return await this.#connection.text('POST', '/v1/unload_lora_adapter', { ...options, body, repeat: 'refused' });
  }
}
