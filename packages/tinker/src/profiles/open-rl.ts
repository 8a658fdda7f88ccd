import { HOSTED } from './hosted.ts';
import type { TinkerProfile } from './tinker-profile.ts';

/** gke-labs/open-rl: the JSON dialect of SDK 0.18 without checkpoints. */
export const OPEN_RL: TinkerProfile = {
  ...HOSTED,
  name: 'open-rl',
  wire: 'json',
  remembers: 'nothing',
  keyPrefix: null,
  refusal: 'it has no checkpoint routes, so jobs could not be resumed and adapters could not be downloaded',
};
