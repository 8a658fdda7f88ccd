import { trainingFacts } from '@trainyard/engine';
import type { SchedulingPolicy, TokenBackend } from '@trainyard/backend';
import { BackendTokens, openTextOfFile, TextEngine, type TextHalf, type TextHalfOptions } from '@trainyard/generation';

import type { OpenedText, ServedModel } from '../process/opened-text.ts';
import type { DriverParts, TokenDrivers } from './token-driver.ts';

export interface TextHostOptions extends TextHalfOptions {
  readonly modelId: string;
  /** GGUF file, read for its vocabulary and template. */
  readonly modelPath: string;
  /** Requests in flight, running ones included. */
  readonly maxRequests: number;
  /** Default `priority`. */
  readonly policy?: SchedulingPolicy;
  /** Name of the back end's driver, and the settings to open it with. */
  readonly driver: { readonly name: string; readonly settings: unknown };
}

/** Facts of the model file, which hold for any sampler. */
type FileFacts = Omit<ServedModel, 'contextLength' | 'vocabSize' | 'tokenizer' | 'maxLoraRank' | 'warnings'>;

type TextOfGuest = Omit<FileFacts, 'path'> & { readonly text: TextHalf };

const openTextWithReason = async (...file: Parameters<typeof openTextOfFile>): Promise<TextOfGuest> => ({
  ...(await openTextOfFile(...file)),
  ...trainingFacts(file[0]),
});

/**
 * Opens text over a back end: the vocabulary of a file, and a driver for the rest.
 * @param parts for the driver
 * @throws {NativeError} if the file is missing or malformed; Error for an unknown driver, and for a back end
 * with another vocabulary; errors of the driver
 */
export async function openGuest(
  options: TextHostOptions,
  drivers: TokenDrivers,
  { turns, log }: Pick<DriverParts, 'turns' | 'log'>,
  openText: (...file: Parameters<typeof openTextOfFile>) => Promise<TextOfGuest> = openTextWithReason,
): Promise<OpenedText> {
  const { name, settings } = options.driver;
  const open = Object.hasOwn(drivers, name) ? drivers[name] : undefined;
  if (open === undefined)
    throw new Error(`unknown sampling backend ${JSON.stringify(name)}; known: ${Object.keys(drivers).join(', ')}`);
  const { modelId, modelPath, policy } = options;
  const { text, ...facts } = await openText(modelPath, options);
  try {
    const backend = await open(settings as never, { modelId, modelPath, text, turns, log });
    return await standOn(backend, text, { path: modelPath, ...facts, policy });
  } catch (error) {
    text.close();
    throw error;
  }
}

/**
 * @param backend not started; closed with the result
 * @param text also closed with the result
 * @throws Error for a back end with another vocabulary; errors of its start
 */
async function standOn(
  backend: TokenBackend,
  text: TextHalf,
  { policy = 'priority', ...file }: FileFacts & { policy?: SchedulingPolicy | undefined },
): Promise<OpenedText> {
  await backend.start();
  const { tokenizer } = text.prompt;
  const tokens = new BackendTokens(backend, tokenizer);
  if (tokens.vocabSize !== tokenizer.vocabSize) {
    await backend.close();
    throw new Error(
      `Vocabulary mismatch: the sampling server has ${tokens.vocabSize} tokens, the model file ${tokenizer.vocabSize}. Serve the same model on both`,
    );
  }
  const { shortContext = null } = file;
  if (shortContext !== null && tokens.limits.maxContextTokens > shortContext) {
    await backend.close();
    throw new Error(
      `The sampling server has a context of ${tokens.limits.maxContextTokens} tokens, so it uses this model's rope factors for long contexts; training uses those for up to ${shortContext}. Start vLLM with --max-model-len ${shortContext}`,
    );
  }
  const engine = new TextEngine({ ...text.prompt, tokens, constraints: text.constraints, policy });
  return {
    engine,
    model: {
      ...file,
      contextLength: tokens.limits.maxContextTokens,
      vocabSize: tokens.vocabSize,
      maxLoraRank: backend.models[0]?.maxLoraRank ?? null,
      tokenizer: text.facts,
    },
    codec: text.codec,
    coreUse: null,
    health: () => backend.health(),
    close: async () => {
      engine.close();
      await backend.close();
      text.close();
    },
  };
}
