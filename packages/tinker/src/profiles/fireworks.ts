import { HOSTED } from './hosted.ts';
import type { TinkerProfile } from './tinker-profile.ts';

/** Fireworks' trainers: the JSON dialect of SDK 0.23. Untested: from its documentation. */
export const FIREWORKS: TinkerProfile = {
  ...HOSTED,
  name: 'fireworks',
  wire: 'json',
  remembers: 'nothing',
  keyPrefix: null,
};
