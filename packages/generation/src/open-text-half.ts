import { LlamaModel } from '@trainyard/native';
import { ChatTemplate, Tokenizer, type ToolFormat } from '@trainyard/tokenizer';
import { LongTexts } from './prompt/long-texts.ts';
import type { PromptBorders, PromptParts } from './prompt/prompt.ts';
import { requestTemplates } from './prompt/request-templates.ts';
import { TextCodec } from './prompt/text-codec.ts';
import type { ConstraintSpecs } from './reply/constraint-specs.ts';
import { openConstraints } from './reply/open-constraints.ts';

export interface TextHalfOptions {
  /** Default true: runs templates of requests, in separate child processes. */
  readonly runsRequestTemplates?: boolean;
  /** Default false: the texts of control tokens in messages stay text. */
  readonly allowsControlTokens?: boolean;
  /** Format of the model's tool calls. Default null: as in its chat template. */
  readonly toolFormat?: ToolFormat | null;
}

/** A model without weights: vocabulary and template. */
export interface TextHalf {
  readonly prompt: PromptParts & { readonly tokenizer: Tokenizer };
  readonly constraints: ConstraintSpecs;
  /** Converts text and ids outside of generation. */
  readonly codec: TextCodec;
  readonly facts: TokenizerFacts;
  close(): void;
}

/** Facts about the tokenizer for clients. */
export interface TokenizerFacts {
  /** The model's own; null if it has none. */
  readonly chatTemplate: string | null;
  readonly bosTokenId: number | null;
  /** Id of the token that ends a reply. */
  readonly eosTokenId: number;
  /** True if tokenised texts start with a BOS token. */
  readonly addsBos: boolean;
}

/**
 * Opens the parts of a model that text needs (it may be loaded `vocabOnly`): tokenizer, chat template,
 * constraints on its tokens, and children for templates of requests.
 *
 * @param model stays the caller's, and open as long as this is
 */
export async function openTextHalf(model: LlamaModel, options: TextHalfOptions = {}): Promise<TextHalf> {
  const { allowsControlTokens = false, runsRequestTemplates = true, toolFormat = null } = options;
  const tokenizer = Tokenizer.fromModel(model);
  const source = model.chatTemplate;
  const template = source === undefined ? null : new ChatTemplate(tokenizer, source, { allowsControlTokens });
  const borders = promptBorders(model);
  const constraints = openConstraints(model, tokenizer);
  const templateSandbox = runsRequestTemplates ? requestTemplates(tokenizer, { allowsControlTokens }) : null;
  const longTexts = new LongTexts({ modelPath: model.path, allowsControlTokens, runsRequestTemplates });
  const prompt = { tokenizer, template, templateSandbox, longTexts, borders, toolFormat };
  return toTextHalf(prompt, constraints, source ?? null, () => longTexts.close());
}

/**
 * @param chatTemplate source of the template; null = none @param close closes the resources of the parts,
 *   after the parts
 */
export function toTextHalf(
  prompt: TextHalf['prompt'],
  constraints: ConstraintSpecs,
  chatTemplate: string | null,
  close: () => void = () => {},
): TextHalf {
  const { tokenizer, templateSandbox, borders } = prompt;
  return {
    prompt,
    constraints,
    codec: new TextCodec(prompt),
    facts: {
      chatTemplate,
      bosTokenId: tokenizer.bosTokenId,
      eosTokenId: tokenizer.eosTokenId,
      addsBos: borders.before.length > 0,
    },
    close: () => {
      templateSandbox?.close();
      close();
      constraints.close();
    },
  };
}

/**
 * Opens the text half of a GGUF file, whose weights stay on disk.
 * @throws {NativeError} if it is missing or malformed
 */
export async function openTextOfFile(
  path: string,
  options: TextHalfOptions = {},
): Promise<{ text: TextHalf; architecture: string }> {
  const model = LlamaModel.load(path, { vocabOnly: true });
  const text = await openTextHalf(model, options);
  const close = (): void => {
    text.close();
    model.close();
  };
  return { text: { ...text, close }, architecture: model.architecture };
}

/**
 * Tokens that the model's tokenizer adds around a text, found by encoding one, because the file's metadata
 * has several keys for them.
 */
export function promptBorders(model: LlamaModel): PromptBorders {
  const [plain, bordered] = [false, true].map((addSpecial) =>
    Array.from(model.tokenize('a', { addSpecial, parseSpecial: false })),
  ) as [number[], number[]];
  const start = bordered.findIndex((_, at) => plain.every((id, i) => bordered[at + i] === id));
  return { before: bordered.slice(0, start), after: bordered.slice(start + plain.length) };
}
