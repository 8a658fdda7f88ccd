import { HOSTED } from './hosted.ts';
import type { TinkerProfile } from './tinker-profile.ts';

/** gke-labs/open-rl: the JSON dialect of SDK 0.18 without checkpoints. */
export const OPEN_RL: TinkerProfile = {
  ...HOSTED,
  name: 'open-rl',
  wire: 'json',
  remembers: 'nothing',
  keyPrefix: null,
  refusal: 'it has no routes for checkpoints, so that no job could be gone on from and no adapter comes back',
};
