import type { ServerUnderTest } from '../server-under-test.ts';

/** A kind of server that the bench installs, starts and stops itself, with the settings that its documents advise. */
export interface Peer {
  /** Title of its column. */
  readonly name: string;
  /** Ratios are those of our servers to the others. */
  readonly isOurs: boolean;
  /** Fetches and builds missing parts. @throws {Error} naming a missing part and a remedy */
  readonly install: () => Promise<void>;
  /** Starts one server. @param numAdapters LoRA adapters that it must serve; 0: adapters are switched off */
  readonly start: (numAdapters: number) => Promise<StartedPeer>;
}

export interface StartedPeer extends ServerUnderTest {
  /** Its command and environment, for the reader of the figures. */
  readonly settings: string;
  readonly stop: () => Promise<void>;
}

export type Log = (line: string) => void;
