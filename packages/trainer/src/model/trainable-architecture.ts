export { TRAINABLE_ARCHITECTURES } from '@trainyard/transformer';
import { readArchitecture, UnsupportedModelError, type Architecture, type ModelFile } from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';

/** @throws {TrainerError} `trainer.architecture_unsupported` with the supported ones */
export function trainableArchitecture(file: ModelFile): Architecture {
  try {
    return readArchitecture(file);
  } catch (error) {
    if (!(error instanceof UnsupportedModelError)) throw error;
    throw new TrainerError('trainer.architecture_unsupported', error.message, { cause: error });
  }
}
