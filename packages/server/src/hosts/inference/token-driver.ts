import type { ComputeTurns, TokenBackend } from '@trainyard/backend';
import type { TextHalf } from '@trainyard/generation';

/** Besides its settings, all that a driver may need. */
export interface DriverParts {
  readonly modelId: string;
  /** GGUF file of the base model. */
  readonly modelPath: string;
  /** Its vocabulary, its end tokens. */
  readonly text: TextHalf;
  /** For what computes in this process. */
  readonly turns: ComputeTurns;
  /** A line for the log of the service. */
  readonly log: (line: string) => void;
}

/**
 * Opens a back end, which is started by whoever asked for it.
 * @param settings of the host's options, as plain data
 */
export type TokenDriver<Settings = never> = (settings: Settings, parts: DriverParts) => Promise<TokenBackend>;

/** By the names that host options use. */
export type TokenDrivers = Readonly<Record<string, TokenDriver>>;
