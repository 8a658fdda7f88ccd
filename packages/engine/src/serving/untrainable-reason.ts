import { GgufFile } from '@trainyard/native';
import { readArchitecture, UnsupportedModelError } from '@trainyard/transformer';

/** Why the model of a file cannot be trained, with the name of the setting, tensor or architecture; null when it can. */
export function untrainableReason(path: string): string | null {
  using file = GgufFile.open(path);
  try {
    readArchitecture(file);
    return null;
  } catch (error) {
    if (error instanceof UnsupportedModelError) return error.message;
    throw error;
  }
}
