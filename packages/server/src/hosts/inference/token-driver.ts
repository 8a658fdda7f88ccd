import type { ComputeTurns, TokenBackend } from '@trainyard/backend';
import type { TextHalf } from '@trainyard/generation';

/** Inputs of a driver other than its settings. */
export interface DriverParts {
  readonly modelId: string;
  /** GGUF file of the base model. */
  readonly modelPath: string;
  /** Its vocabulary and end tokens. */
  readonly text: TextHalf;
  /** Core turns for drivers that compute in this process. */
  readonly turns: ComputeTurns;
  /** Logs a line of the service. */
  readonly log: (line: string) => void;
}

/**
 * Opens a back end. The caller starts it.
 * @param settings of the host's options, as plain data
 */
export type TokenDriver<Settings = never> = (settings: Settings, parts: DriverParts) => Promise<TokenBackend>;

/** Drivers by their names in host options. */
export type TokenDrivers = Readonly<Record<string, TokenDriver>>;
