/**
 * Test harness: replies to a chat over a scripted model with one token per byte, with real constraints, split
 * into their parts.
 */
import { Constraints } from '@trainyard/constraints';
import { ChatTemplate, Tokenizer } from '@trainyard/tokenizer';
import { ByteVocabulary } from '@trainyard/tokenizer/testing';
import { ConstraintSpecs } from '../reply/constraint-specs.ts';
import { Harness } from './text-harness.ts';
import { replying } from '@trainyard/engine/testing';
import type { RequestOptions, Transcript } from './text-harness.ts';
import { type ChatPrompt, DEFAULT_CHAT_PROMPT, type ReplyReading } from '../contract/generate-request.ts';

export const TURNS = `{%- for message in messages -%}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}`;
/** Supports tools and think blocks; `enable_thinking` false closes the block in the prompt. */
export const THINKER = `${TURNS}{%- if tools -%}<tools>{{ tools | tojson }}</tools>{{ '<tool_call>' }}{%- endif -%}
{%- if enable_thinking is defined and enable_thinking is false -%}{{ '<think></think>' }}{%- endif -%}`;
export const OPENED = `${TURNS}{{ '<think>' }}`;

export type ReplyOptions = RequestOptions & { prompt?: ChatPrompt };

export const tool = (
  name: string,
  parameters: Record<string, unknown> = { type: 'object', properties: { x: { type: 'integer' } }, required: ['x'] },
) => ({
  type: 'function' as const,
  function: { name, parameters },
});
export const reading = (options: Partial<ReplyReading> = {}): ReplyReading => ({
  tools: [tool('f'), tool('g')],
  toolsText: null,
  toolChoice: 'auto',
  parallelToolCalls: true,
  ...options,
});
export const prompt = (variables: Record<string, unknown> = {}): ChatPrompt => ({
  ...DEFAULT_CHAT_PROMPT,
  messages: [{ role: 'user', content: 'Hi' }],
  templateVariables: variables,
});

export class ReplyHarness {
  readonly #vocabulary: ByteVocabulary;
  readonly #tokenizer: Tokenizer;
  readonly #specs: ConstraintSpecs;

  /** @param userDefinedTokens texts that are single tokens; the rest is bytes */
  static async create(userDefinedTokens = ['<think>', '</think>']): Promise<ReplyHarness> {
    const vocabulary = new ByteVocabulary({ userDefinedTokens });
    const tokenizer = new Tokenizer(vocabulary);
    const constraints = new Constraints({
      vocabSize: vocabulary.vocabSize,
      tokenBytes: (id) => vocabulary.tokenBytes(id),
      isControl: (id) => vocabulary.tokenKind(id) === 'control',
      eosTokenId: tokenizer.eosTokenId,
      endTokenIds: tokenizer.endTokenIds,
    });
    return new ReplyHarness(vocabulary, tokenizer, new ConstraintSpecs(constraints, tokenizer));
  }

  private constructor(vocabulary: ByteVocabulary, tokenizer: Tokenizer, specs: ConstraintSpecs) {
    this.#vocabulary = vocabulary;
    this.#tokenizer = tokenizer;
    this.#specs = specs;
  }

  idOf(text: string): number {
    return this.#vocabulary.idOf(text);
  }

  /**
   * Makes the model write `text` as far as allowed: each place prefers the token of `text` there, after any
   * token before.
   */
  reply(text: string, options: ReplyOptions, source = THINKER): Transcript {
    const tokenizer = this.#tokenizer;
    const template = new ChatTemplate(tokenizer, source);
    const chat = options.prompt ?? prompt();
    const { templateVariables, continueFinalMessage, addGenerationPrompt } = chat;
    const rendering = { templateVariables, continueFinalMessage, addGenerationPrompt };
    const { tokenIds } = template.render(chat.messages, rendering);
    const harness = new Harness({
      tokenizer,
      template,
      constraints: {
        // Compiled at once: validation has its own thread, which steps do not wait for.
        compile: (constraint) => this.#specs.compile(constraint),
        forSchema: (schema, options) => this.#specs.forSchema(schema, options),
        orCalls: (constraint, format, calls) => this.#specs.orCalls(constraint, format, calls),
      },
      vocabSize: this.#vocabulary.vocabSize,
      logits: replying([...tokenizer.encodeWithSpecial(text)], tokenIds.length),
    });
    const transcript = harness.submit({ maxTokens: 200, prompt: chat, ...options });
    harness.run();
    if (transcript.numEnds !== 1) throw new Error(`the request ended ${transcript.numEnds} times`);
    return transcript;
  }

  close(): void {
    this.#specs.close();
  }
}

/** Parts of all deltas of a request's choices together. */
export function sum(transcript: Transcript): { content: string; reasoning: string; calls: string[] } {
  const total = { content: '', reasoning: '', calls: [] as string[] };
  for (const event of transcript.events) {
    if ((event.kind !== 'delta' && event.kind !== 'finished') || event.reply === undefined) continue;
    total.content += event.reply.content;
    total.reasoning += event.reply.reasoning;
    for (const call of event.reply.toolCalls) {
      total.calls[call.index] = (total.calls[call.index] ?? `${call.name}:`) + call.arguments;
    }
  }
  return total;
}
