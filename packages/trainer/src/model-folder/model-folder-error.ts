/** A folder that is not a usable base model. The message names file, problem and next step, without the folder. */
export class ModelFolderError extends Error {
  override readonly name = 'ModelFolderError';
}

/** Refuses what the converter cannot represent, with the way that always works. */
export const unsupportedFolder = (problem: string) =>
  new ModelFolderError(`${problem}. A GGUF file of the model works: --model ID=PATH.gguf`);
