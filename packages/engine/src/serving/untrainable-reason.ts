import { GgufFile } from '@trainyard/native';
import { readArchitecture, UnsupportedModelError } from '@trainyard/transformer';

/** Null if the model can be trained. */
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
