import { FIREWORKS } from './fireworks.ts';
import { HOSTED } from './hosted.ts';
import { MILES } from './miles.ts';
import { OPEN_RL } from './open-rl.ts';
import { SKYRL_GPU } from './skyrl-gpu.ts';
import { SKYRL } from './skyrl.ts';
import type { TinkerProfile } from './tinker-profile.ts';

export type TinkerProfileName = 'skyrl' | 'skyrl-gpu' | 'hosted' | 'miles' | 'open-rl' | 'fireworks';

/** Keys are the names in settings. */
export const TINKER_PROFILES: Readonly<Record<TinkerProfileName, TinkerProfile>> = {
  skyrl: SKYRL,
  'skyrl-gpu': SKYRL_GPU,
  hosted: HOSTED,
  miles: MILES,
  'open-rl': OPEN_RL,
  fireworks: FIREWORKS,
};
