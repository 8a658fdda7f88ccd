import { LlamaModel } from '@trainyard/native';
import { ChatTemplate, Tokenizer, type ToolFormat } from '@trainyard/tokenizer';
import { LongTexts } from './prompt/long-texts.ts';
import type { PromptBorders, PromptParts } from './prompt/prompt.ts';
import { requestTemplates } from './prompt/request-templates.ts';
import { TextCodec } from './prompt/text-codec.ts';
import type { ConstraintSpecs } from './reply/constraint-specs.ts';
import { openConstraints } from './reply/open-constraints.ts';

export interface TextHalfOptions {
  /** Default true: templates that come with requests are run, in child processes of their own. */
  readonly runsRequestTemplates?: boolean;
  /** Default false: the texts of control tokens in messages stay text. */
  readonly allowsControlTokens?: boolean;
  /** How the model writes its calls of tools. Default null: as its chat template says. */
  readonly toolFormat?: ToolFormat | null;
}

/** A model without weights: its vocabulary and its template. */
export interface TextHalf {
  readonly prompt: PromptParts & { readonly tokenizer: Tokenizer };
  readonly constraints: ConstraintSpecs;
  /** Text and ids outside any generation. */
  readonly codec: TextCodec;
  readonly facts: TokenizerFacts;
  close(): void;
}

/** Facts about the tokenizer that clients ask for. */
export interface TokenizerFacts {
  /** The model's own; null when it has none. */
  readonly chatTemplate: string | null;
  readonly bosTokenId: number | null;
  /** Ends a reply. */
  readonly eosTokenId: number;
  /** Whether texts are tokenised with a token in front. */
  readonly addsBos: boolean;
}

/**
 * All that text needs of a model, which may be loaded for its vocabulary alone (`vocabOnly`): tokenizer, chat template, constraints on its tokens, and children for
 * templates of requests.
 *
 * @param model stays the caller's, and open as long as this is
 */
export async function openTextHalf(model: LlamaModel, options: TextHalfOptions = {}): Promise<TextHalf> {
  const { allowsControlTokens = false, runsRequestTemplates = true, toolFormat = null } = options;
  const tokenizer = Tokenizer.fromModel(model);
  const source = model.chatTemplate;
  const template = source === undefined ? null : new ChatTemplate(tokenizer, source, { allowsControlTokens });
  const borders = promptBorders(model);
  const constraints = await openConstraints(model, tokenizer, { keepsThreadReady: true });
  const templateSandbox = runsRequestTemplates ? requestTemplates(tokenizer, { allowsControlTokens }) : null;
  const longTexts = new LongTexts({ modelPath: model.path, allowsControlTokens, runsRequestTemplates });
  const prompt = { tokenizer, template, templateSandbox, longTexts, borders, toolFormat };
  return toTextHalf(prompt, constraints, source ?? null, () => longTexts.close());
}

/** @param chatTemplate source of the template; null = none @param close of what the parts stand on, when what comes of them is closed */
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
 * The same of a GGUF file, whose weights stay on the disk.
 * @throws {NativeError} when it is missing or malformed
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

/** The tokens that the model's tokenizer puts around a text by itself, found by encoding one, since the file's metadata has several keys for it. */
export function promptBorders(model: LlamaModel): PromptBorders {
  const [plain, bordered] = [false, true].map((addSpecial) =>
    Array.from(model.tokenize('a', { addSpecial, parseSpecial: false })),
  ) as [number[], number[]];
  const start = bordered.findIndex((_, at) => plain.every((id, i) => bordered[at + i] === id));
  return { before: bordered.slice(0, start), after: bordered.slice(start + plain.length) };
}
