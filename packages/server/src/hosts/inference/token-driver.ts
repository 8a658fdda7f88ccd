import type { ComputeTurns, TokenBackend } from '@trainyard/backend';
import type { TextHalf } from '@trainyard/generation';

export interface DriverParts {
  readonly modelId: string;
  readonly modelPath: string;
  /** Its vocabulary and end tokens. */
  readonly text: TextHalf;
  /** Core turns for drivers that compute in this process. */
  readonly turns: ComputeTurns;
  readonly log: (line: string) => void;
}

/**
 * Opens a back end. The caller starts it.
 * @param settings of the host's options, as plain data
 */
export type TokenDriver<Settings = never> = (settings: Settings, parts: DriverParts) => Promise<TokenBackend>;

export type TokenDrivers = Readonly<Record<string, TokenDriver>>;
